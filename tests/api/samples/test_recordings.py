"""Recordings over HTTP: sent as files, decoded in children, and returned as they were."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import numpy as np
import pytest
from recordings import PREPROCESS, sound_model, tone, wav_header, written
from support import Served

CLASSES = ["low", "high"]


@pytest.fixture
def model(served: Served, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", request.node.name)[:60]
    augment = {"shift": 0.1, "gain": 3, "masking": 0.2, "band_masking": 0.2}
    preprocess = {**PREPROCESS, "augment": augment}
    served.register(name, sound_model(), classes=CLASSES, preprocess=preprocess)
    return name


def send(served: Served, model: str, files: list[tuple[str, bytes]], **query: str) -> Any:
    about = [
        {"label": name.partition("-")[0], "split": "validation" if n % 4 == 3 else "train"}
        for n, (name, _) in enumerate(files)
    ]
    return served.http.post(
        f"/v1/models/{model}/samples",
        params=query,
        files=[("file", file) for file in files],
        data={"samples": json.dumps(about)},
    )


def sound(label: str, seed: int, *, rate: int = 8000, kind: str = "WAV") -> bytes:
    hertz = {"low": 400, "high": 2500}[label] * (1 + seed % 7 / 20)
    return written(tone(hertz, seed, rate=rate), rate, kind=kind)


def test_recordings_of_any_rate_train_a_model_that_tells_them_apart(
    served: Served, model: str
) -> None:
    url = f"/v1/models/{model}"
    formats = [(8000, "WAV"), (16_000, "FLAC"), (44_100, "WAV")]
    files = [
        (f"{label}-{n}", sound(label, n, rate=formats[n % 3][0], kind=formats[n % 3][1]))
        for n in range(41)
        for label in CLASSES
    ]
    answer = send(served, model, files)
    assert answer.status_code == 201, answer.text

    job = served.train(model, epochs=30, batch_size=8, learning_rate=0.01, seed=1)

    assert job["metrics"]["validation"]["accuracy"] == 1.0
    first, _ = answer.json()["ids"]
    stored = served.http.get(f"{url}/samples/{first}/content")
    assert stored.content == files[0][1]
    assert stored.headers["content-type"] == "audio/wav"
    for media_type, kind in (("audio/wav", "WAV"), ("audio/wave", "WAV"), ("audio/x-flac", "FLAC")):
        asked = served.http.post(
            f"{url}/predict",
            params={"keep": "true"},
            content=sound("high", 900, kind=kind),
            headers={"Content-Type": media_type},
        )
        assert asked.json()["predictions"][0]["label"] == "high", asked.text
    assert served.http.get(url).json()["samples"]["unlabelled"] == 2


def test_one_recording_is_a_body(served: Served, model: str) -> None:
    url = f"/v1/models/{model}/samples"
    for media_type in ("audio/wav", "audio/x-wav", "Audio/Vnd.Wave; codecs=1"):
        answer = served.http.post(
            url,
            params={"label": "low", "key": "first"},
            content=sound("low", 1),
            headers={"Content-Type": media_type},
        )
        assert answer.status_code == 201, answer.text
    wrong = served.http.post(
        url, content=sound("low", 1), headers={"Content-Type": "audio/flac"}
    ).json()
    assert "it is said to be audio/flac, but it is audio/wav" in wrong["errors"][0]["detail"]
    assert served.http.get(url).json()["items"][0]["label"] == 0


BAD = {
    "low-four": (written(np.zeros((800, 4))), "it has 4 channels; send mono or stereo"),
    "low-slow": (written(np.zeros(800), 4000), "register the model with a lower f_max"),
    "low-empty": (written(np.zeros(0)), "it is empty"),
    "low-cut": (sound("low", 1)[:-100], "send the whole file"),
    "low-flac": (sound("low", 1, kind="FLAC")[:-9], "send the whole file"),
    "low-brief": (written(np.zeros(50)), "less than a window of 0.025 s; send a longer one"),
    "low-lie": (wav_header(size=2**30), "send the whole file"),
    "low-text": (b"tone", "it is no WAV or FLAC; convert it"),
}


def test_each_bad_recording_is_named_and_nothing_is_stored(served: Served, model: str) -> None:
    files = [("high-good", sound("high", 1)), *((name, each[0]) for name, each in BAD.items())]

    refused = send(served, model, files)

    assert refused.status_code == 422
    errors = refused.json()["errors"]
    assert [error["pointer"] for error in errors] == [f"/files/{n}" for n in range(1, len(files))]
    for error, (name, (_, reason)) in zip(errors, BAD.items(), strict=True):
        assert error["detail"].startswith(f"{name}: ")
        assert reason in error["detail"]
    assert served.http.get(f"/v1/models/{model}/samples").json()["items"] == []
    assert send(served, model, files, on_error="skip").json()["accepted"] == 1


def damaged_flac() -> bytes:
    """Header and last frame are whole, the frame between them is not."""
    signal = np.random.default_rng(0).uniform(-0.5, 0.5, 9000)
    data = bytearray(written(signal, kind="FLAC"))
    data[2000:2100] = bytes(100)
    return bytes(data)


def test_a_recording_that_cannot_be_decoded_is_put_in_quarantine(
    served: Served, model: str
) -> None:
    url = f"/v1/models/{model}"
    files = [(f"{label}-{n}", sound(label, n)) for n in range(4) for label in CLASSES]
    assert send(served, model, [*files, ("low-damaged", damaged_flac())]).status_code == 201

    served.train(model, epochs=1, seed=1)

    (bad,) = served.http.get(f"{url}/samples", params={"quarantined": "true"}).json()["items"]
    assert "send the whole file" in bad["quarantine"] or "may be damaged" in bad["quarantine"]
    asked = served.http.post(
        f"{url}/predict", content=damaged_flac(), headers={"Content-Type": "audio/flac"}
    )
    assert asked.status_code == 422, asked.text


def test_what_is_no_recording_is_refused_with_what_to_send(served: Served, model: str) -> None:
    url = f"/v1/models/{model}/samples"
    buffer = io.BytesIO()
    np.savez(buffer, sound=np.zeros((1, 1, 16, 26), "f4"))
    as_npz = served.http.post(
        url, content=buffer.getvalue(), headers={"Content-Type": "application/x-npz"}
    )
    assert as_npz.status_code == 422
    assert "are recordings" in as_npz.json()["detail"]
    assert "send WAV or FLAC" in as_npz.json()["errors"][0]["detail"]


def test_an_archive_of_recordings_is_restored(served: Served, model: str) -> None:
    files = [(f"{label}-{n}", sound(label, n)) for n in range(3) for label in CLASSES]
    send(served, model, files)
    archive = served.http.get(f"/v1/models/{model}/samples/archive").content
    other = f"{model}-other"
    served.register(other, sound_model(), classes=CLASSES, preprocess=PREPROCESS)

    restored = served.http.post(
        f"/v1/models/{other}/samples/archive",
        content=archive,
        headers={"Content-Type": "application/zip"},
    )

    assert restored.json()["accepted"] == 6, restored.text
