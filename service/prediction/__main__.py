"""The predictor's main: frames in, frames out, until the daemon closes the pipe."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import cache
from typing import IO, TYPE_CHECKING

from service.completion.messages import COMPLETE
from service.errors import ModelNotLoadable, PredictionFailed
from service.prediction.frames import Frame, encode, read
from service.prediction.preparation import prepare, scores_of, sizes_of_photos
from service.preprocess.text_inputs import WORDS
from service.processes import sandbox

if TYPE_CHECKING:
    from service.completion.completer import Completers
    from service.prediction.loaded_models import LoadedModels

logger = logging.getLogger("service.prediction")


def main() -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    # Ctrl-C reaches the whole terminal group; the daemon decides when the predictor ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    options = _options()
    sandbox.enter(readable=[options.files])
    # Output that a library prints to descriptor 1 must not end up between frames.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        serve(sys.stdin.buffer, answers, options)
    except BrokenPipeError:
        return 0
    except Exception:
        logger.exception("predictor_broke")
        return 1
    return 0


def serve(questions: IO[bytes], answers: IO[bytes], options: argparse.Namespace) -> None:
    """Answer every question, in order, until end of file."""
    from service.prediction.loaded_models import LoadedModels

    models = LoadedModels(
        threads=options.threads, max_sessions=options.sessions, max_bytes=options.model_bytes
    )
    completers = cache(lambda: _completers(options.threads))
    while (question := read(questions)) is not None:
        try:
            answer = _answer(question, models, completers)
        except (ModelNotLoadable, PredictionFailed) as error:
            answer = Frame({"error": {"code": error.code, "detail": error.detail}})
        answers.writelines(encode(answer))
        answers.flush()


def _answer(question: Frame, models: LoadedModels, completers: Callable[[], Completers]) -> Frame:
    """The outputs; none for a question without inputs, which only loads or drops a file."""
    header, file = question.header, question.header["file"]
    if header["forget"]:
        models.forget(file["sha256"])
        return Frame({})
    held = models.load(file["sha256"], file["path"], file["size_bytes"])
    if COMPLETE in header:
        return completers().answer(held, header, question.tensors)
    inputs = dict(prepare(header, question.tensors))
    beside = {WORDS: inputs.pop(WORDS)} if WORDS in inputs else {}
    if not inputs:
        return Frame({})
    sizes = sizes_of_photos(header, question.tensors)
    outputs = held.run(inputs)
    beside |= scores_of(header, inputs, outputs)
    return Frame({"sizes": sizes}, {**outputs, **beside})


def _completers(threads: int) -> Completers:
    """Loaded for the first text: most predictors complete none."""
    from service.completion.completer import Completers

    return Completers(threads=threads)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m service.prediction")
    for name in ("threads", "sessions", "model-bytes"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--files", help="the folder of all that may be loaded", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
