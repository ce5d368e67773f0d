"""Data time of epochs over sentences: the first tokenizes, and later ones read the cache."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from msgspec.structs import replace

from bench.daemon import byte_tokenizer
from bench.device.images import cache_of, index_of
from bench.measuring import seconds
from bench.table import Row
from service.preprocess.text import Text
from service.training.data.sampler import Sampler
from service.training.data.texts import LabelledTexts, encode_all
from service.training.tasks import TASKS
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import Signature, TargetSpec, TensorSpec

SENTENCES, VOCABULARY, LONGEST, BATCH_SIZE = 100_000, 8192, 64, 32
WORDS, SHORTEST_WORD, LONGEST_WORD = 20_000, 2, 10
MOST_WORDS = 24
"""Of a sentence."""
READINGS = 3
SMALLEST = {"SENTENCES": 200, "VOCABULARY": 300, "READINGS": 1}


def run() -> list[Row]:
    """One thread; the cache is on the disk of the temporary folder."""
    with tempfile.TemporaryDirectory(prefix="honed-bench-") as name:
        folder = Path(name)
        index, tokenizer = _sentences(folder)
        specs = {n: TensorSpec(n, "int64", (LONGEST,)) for n in ("input_ids", "attention_mask")}
        facts = {"tokenizer": "0" * 64, "vocabulary": VOCABULARY, "padding": "batch"}
        kind = Text.parse_among({"kind": "text", "input": "input_ids", **facts}, specs).at(
            str(tokenizer)
        )
        signature = Signature(tuple(specs.values()), TargetSpec("labels", "int64", (0,)))

        def epoch() -> None:
            cache = cache_of(folder / "model" / "cache", kind, SENTENCES)
            _, counts = encode_all(index, kind, cache, threads=1, tick=lambda: None)
            task = TASKS["causal_lm"]
            texts = LabelledTexts(index, signature, kind, cache, counts=counts, task=task)
            sampler = Sampler(np.arange(SENTENCES), lengths=texts.lengths, batch_size=BATCH_SIZE)
            for _ in texts.batches(sampler.epoch(0, seed=1), batch_size=BATCH_SIZE):
                pass
            cache.close()

        first, *later = (seconds(epoch) for _ in range(1 + READINGS))
    return [
        {
            "sentences": SENTENCES,
            "first epoch's data s": first,
            "later epoch's data s": median(later),
            "ratio": median(later) / first,
            "cache MB": SENTENCES * kind.row_bytes / 2**20,
        }
    ]


def _sentences(folder: Path) -> tuple[SampleIndex, Path]:
    """A pack of sentences of drawn words, frequent and rare as words are, and a tokenizer."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    sizes = rng.integers(SHORTEST_WORD, LONGEST_WORD, WORDS)
    words = ["".join(rng.choice(letters, size)) for size in sizes]
    shares = 1 / np.arange(1, WORDS + 1)
    drawn = rng.choice(words, (SENTENCES, MOST_WORDS), p=shares / shares.sum())
    lengths = rng.integers(4, MOST_WORDS + 1, SENTENCES)
    texts = [" ".join(row[:length]) for row, length in zip(drawn, lengths, strict=True)]
    tokenizer = folder / "tokenizer.json"
    byte_tokenizer(texts[:5000], size=VOCABULARY).save(str(tokenizer))
    index = index_of(folder / "1.pack", [text.encode() for text in texts])
    return replace(index, labels=np.zeros((SENTENCES, 0), np.int64)), tokenizer
