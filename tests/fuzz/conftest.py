"""What the fuzz tests share: a store with models, and how many inputs each door gets.

HONE_FUZZ_INPUTS says how many; `make fuzz` asks for 100,000.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile import Doors
from hypothesis import HealthCheck, Phase, settings
from msgspec.structs import replace
from recordings import PREPROCESS
from stored import adopt, new_model

from service.preprocess import parse
from service.training.tasks import TASKS
from storage.records.models import Model
from storage.records.signatures import Signature, TargetSpec, TensorSpec
from storage.store import Store

settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("HONE_FUZZ_INPUTS", "100")),
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

TOKENIZER = {"tokenizer": "0" * 64, "vocabulary": 64, "pad_id": 0, "padding": "max"}
CLASSES = TargetSpec("labels", "int64", (), 3, ("cat", "dog", "cow"))
SPANS = TASKS["token_classification"].target_spec((8, 3), ("O", "B-PER", "I-PER"))
VALUES = TargetSpec("target", "float32", (2,))


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    store = Store.open(tmp_path_factory.mktemp("fuzz"))
    vector = TensorSpec("x", "float32", (3,))
    several = (TensorSpec("ids", "int64", (2,)), TensorSpec("flag", "bool", ()))
    sound = Signature((TensorSpec("sound", "float32", (16, 26)),), CLASSES)
    ids = Signature((TensorSpec("input_ids", "int64", (8,)),), CLASSES)
    series = Signature((TensorSpec("x", "float32", (3, 2)),), replace(VALUES, shape=(1,)))
    ahead = {"kind": "windows", "stride": 1, "forecast": {"channel": "b", "horizon": 2}}
    picture = Signature((TensorSpec("image", "float32", (3, 4, 4)),), CLASSES)

    def add(name: str, signature: Signature, **fields: Any) -> Model:
        new = new_model(name, signature=signature, **fields)
        return store.models.add(new, adopt(store, name.encode()))

    yield Doors(
        store,
        classes=add("classes", Signature((vector,), CLASSES)),
        values=add("values", Signature((vector,), VALUES), loss="mse"),
        several=add("several", Signature(several, CLASSES)),
        images=add("images", picture, preprocess=parse({"kind": "image"}, picture)),
        recordings=add("recordings", sound, preprocess=parse(PREPROCESS, sound)),
        texts=add("texts", ids, preprocess=parse({"kind": "text"}, ids, text=TOKENIZER)),
        pairs=add(
            "pairs", ids, preprocess=parse({"kind": "text", "pairs": True}, ids, text=TOKENIZER)
        ),
        spans=add(
            "spans",
            replace(ids, target=SPANS),
            loss="token_classification",
            preprocess=parse({"kind": "text"}, ids, text=TOKENIZER),
        ),
        forecasts=add("forecasts", series, loss="mse", preprocess=parse(ahead, series)),
    )
    store.close()


@pytest.fixture(scope="module")
def body_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where an upload lies before it is read."""
    return tmp_path_factory.mktemp("bodies") / "body"
