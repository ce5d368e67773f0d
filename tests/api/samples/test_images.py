"""Photos over HTTP: they go up as files, are decoded in the child, and come down as they were."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import numpy as np
import onnxruntime
import pytest
from pictures import PREPROCESS, SHAPE, image_model, photo
from PIL import Image as Pillow
from support import Served, mlp

from service.preprocess import for_signature
from storage.records.signatures import Signature, TargetSpec, TensorSpec


@pytest.fixture
def model(served: Served, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", request.node.name)[:60]
    served.register(name, image_model(), classes=["dark", "bright"], preprocess=PREPROCESS)
    return name


def send(served: Served, model: str, files: list[tuple[str, bytes]], about: Any = None) -> Any:
    data = {} if about is None else {"samples": json.dumps(about)}
    return served.http.post(
        f"/v1/models/{model}/samples",
        files=[("file", (name, content)) for name, content in files],
        data=data,
    )


def test_photos_go_up_get_labels_later_and_train(served: Served, model: str) -> None:
    url = f"/v1/models/{model}"
    shades = [60, 190]
    files = [(f"{n}.png", photo(shades[n % 2], n)) for n in range(80)]
    about = [
        {"key": f"photo-{n}", "split": "train" if n < 60 else "validation"}
        | ({"label": ["dark", "bright"][n % 2]} if n % 4 < 2 else {})
        for n in range(80)
    ]
    answer = send(served, model, files, about)
    assert answer.status_code == 201, answer.text
    assert served.http.get(url).json()["samples"]["unlabelled"] == 40
    before = served.train(model, epochs=1, batch_size=8, seed=1)

    for n in range(80):
        if n % 4 >= 2:
            changed = served.http.patch(
                f"{url}/samples", params={"key": f"photo-{n}"}, json={"label": n % 2}
            )
            assert changed.status_code == 200, changed.text
    job = served.train(model, epochs=30, batch_size=8, learning_rate=0.01, seed=1)

    assert before["metrics"]["validation"]["samples"] == 10
    assert job["metrics"]["validation"]["accuracy"] == 1.0
    session = onnxruntime.InferenceSession(served.http.get(f"{url}/latest/model.onnx").content)
    described = served.http.get(url).json()["preprocess"]
    signature = Signature(
        (TensorSpec("image", "float32", SHAPE),), TargetSpec("labels", "int64", (), 2)
    )
    pipeline = for_signature(signature, described)
    jpegs = [photo(60, 900, kind="JPEG", side=50), photo(190, 901, kind="JPEG", side=50)]
    (logits,) = session.run(None, pipeline.tensors(jpegs))
    assert logits.argmax(axis=1).tolist() == [0, 1]
    for label, jpeg in zip(["dark", "bright"], jpegs, strict=True):
        assert label in predicted_and_kept(served, url, jpeg)
    broken = served.http.post(
        f"{url}/predict", content=jpegs[0][:300], headers={"Content-Type": "image/jpeg"}
    )
    assert broken.is_client_error, broken.text


def predicted_and_kept(served: Served, url: str, jpeg: bytes) -> str:
    """What the model says of a photo, which is kept as it is."""
    asked = served.http.post(
        f"{url}/predict",
        content=jpeg,
        params={"keep": True},
        headers={"Content-Type": "image/jpeg"},
    )
    assert asked.status_code == 200, asked.text
    kept = served.http.get(f"{url}/samples/{asked.json()['ids'][0]}/content")
    assert kept.content == jpeg
    return asked.text


def test_an_image_comes_down_as_it_went_up_and_as_a_thumbnail(served: Served, model: str) -> None:
    url = f"/v1/models/{model}/samples"
    data = photo(100, 1, kind="WEBP", side=300)
    answer = served.http.post(
        url,
        content=data,
        params={"label": "dark", "key": "k", "split": "validation"},
        headers={"Content-Type": "image/webp"},
    )
    assert answer.status_code == 201, answer.text
    sample_id = answer.json()["ids"][0]

    shown = served.http.get(f"{url}/{sample_id}").json()
    content = served.http.get(f"{url}/{sample_id}/content")
    thumbnail = served.http.get(f"{url}/{sample_id}/thumbnail", params={"size": 64})

    assert (shown["label"], shown["key"], shown["split"]) == (0, "k", "validation")
    assert content.content == data
    assert content.headers["content-type"] == "image/webp"
    picture = Pillow.open(io.BytesIO(thumbnail.content))
    assert (picture.format, picture.size) == ("PNG", (64, 64))


def test_an_unreadable_image_is_set_aside_and_the_job_goes_on(served: Served, model: str) -> None:
    files = [(f"{n}.png", photo([60, 190][n % 2], n)) for n in range(12)]
    whole = photo(60, 99, side=200)
    middle = len(whole) // 2
    files.append(("damaged.png", whole[:middle] + bytes(99) + whole[middle + 99 :]))
    about = [{"label": n % 2, "split": "train"} for n in range(12)]
    answer = send(served, model, files, [*about, {"label": 0, "split": "train"}])
    assert answer.status_code == 201, answer.text
    bad = answer.json()["ids"][1]

    served.train(model, epochs=1)

    url = f"/v1/models/{model}"
    listed = served.http.get(f"{url}/samples", params={"quarantined": True}).json()["items"]
    seen = served.http.get(f"{url}/versions/2/samples").json()
    assert [each["id"] for each in listed] == [bad]
    assert "cut short" in listed[0]["quarantine"]
    assert served.http.get(f"{url}/samples/stats").json()["quarantined"] == 1
    assert served.http.get(f"{url}/samples/{bad}/thumbnail").status_code == 404
    assert seen["total"] == 12
    assert bad not in [entry["id"] for entry in seen["items"]]


def test_images_are_decoded_once_for_all_jobs(served: Served, model: str) -> None:
    files = [(f"{n}.png", photo([60, 190][n % 2], n)) for n in range(10)]
    send(served, model, files, [{"label": n % 2, "split": "train"} for n in range(10)])

    first = served.train(model, epochs=3)["id"]
    second = served.train(model, epochs=3)["id"]

    log = served.log.read_text(errors="replace")
    told = [line for line in log.splitlines() if "job.decoded" in line]
    assert any(f"job={first}" in line for line in told)
    assert not any(f"job={second} " in line for line in told)


def test_an_image_that_was_cut_short_is_refused_at_once(served: Served, model: str) -> None:
    for kind, words in (
        ("PNG", "its end is missing"),
        ("JPEG", "its end is missing"),
        ("WEBP", "cannot be read"),
    ):
        whole = photo(60, 1, kind=kind, side=200)
        answer = send(served, model, [("cut", whole[: len(whole) * 2 // 3])])
        assert answer.status_code == 422, (kind, answer.text)
        assert words in answer.json()["errors"][0]["detail"]
    assert served.http.get(f"/v1/models/{model}/samples").json()["items"] == []


def test_wrong_images_are_named_and_nothing_is_stored(served: Served, model: str) -> None:
    good = photo(60, 1)
    buffer = io.BytesIO()
    Pillow.new("L", (3, 3)).save(buffer, "GIF")
    answer = send(
        served,
        model,
        [("a.png", good), ("b.png", b"%PDF-1.7"), ("c.gif", buffer.getvalue()), ("d.jpg", good)],
        [{}, {}, {}, {"label": "green"}],
    )

    errors = answer.json()["errors"]
    assert answer.status_code == 422
    assert {error["pointer"] for error in errors} == {
        "/files/1",
        "/files/2",
        "/files/3",
        "/files/3/label",
    }
    assert "b.png: it is no PNG, JPEG or WebP" in errors[0]["detail"]
    assert any("said to be image/jpeg, but it is image/png" in e["detail"] for e in errors)
    assert any("'green' is not one of" in e["detail"] for e in errors)
    counts = served.http.get(f"/v1/models/{model}").json()["samples"]
    assert sum(counts.values()) == 0


def test_tensors_and_images_do_not_mix(served: Served, model: str) -> None:
    tensor = served.http.post(
        f"/v1/models/{model}/samples", json={"inputs": {"image": np.zeros(SHAPE).tolist()}}
    )
    served.register(f"{model}-tabular", mlp(3, 4, 2))
    image = served.http.post(
        f"/v1/models/{model}-tabular/samples",
        content=photo(60, 1),
        headers={"Content-Type": "image/png"},
    )
    assert tensor.status_code == image.status_code == 422
    assert "send PNG, JPEG or WebP" in tensor.json()["errors"][0]["detail"]
    assert "register it with spec.preprocess" in image.json()["errors"][0]["detail"]


def test_a_preprocessing_that_does_not_fit_is_refused_at_registration(served: Served) -> None:
    spec = {"name": "misfit", "loss": "cross_entropy", "preprocess": {"kind": "image"}}
    answer = served.http.post(
        "/v1/models", data={"spec": json.dumps(spec)}, files={"model": ("m.onnx", image_model())}
    )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/spec/preprocess/size"
    assert "takes [1, 8, 8]" in answer.json()["errors"][0]["detail"]


def test_the_most_doubtful_samples_come_first(served: Served, model: str) -> None:
    files = [(f"{n}.png", photo([60, 190][n % 2], n)) for n in range(40)]
    send(served, model, files, [{"label": n % 2, "split": "train"} for n in range(40)])
    served.train(model, epochs=20, learning_rate=0.01, batch_size=8)
    shades = [20, 128, 240, 126]
    waiting = send(served, model, [(f"w{n}.png", photo(s, n)) for n, s in enumerate(shades)])
    first = waiting.json()["ids"][0]

    url = f"/v1/models/{model}/samples"
    query = {"unlabelled": True, "order": "uncertainty", "limit": 2}
    answer = served.http.get(url, params=query)
    assert answer.status_code == 200, answer.text
    page = answer.json()
    rest = served.http.get(url, params={**query, "cursor": page["next"]}).json()

    assert {entry["id"] for entry in page["items"]} == {first + 1, first + 3}
    assert page["items"][0]["uncertainty"] >= page["items"][1]["uncertainty"] > 0
    assert {entry["id"] for entry in rest["items"]} == {first, first + 2}
    assert rest["next"] is None
    served.http.patch(f"{url}/{first + 1}", json={"label": 0})
    again = served.http.get(url, params=query).json()["items"]
    assert first + 1 not in [each["id"] for each in again]
    wrong = served.http.get(url, params={"order": "uncertainty"})
    assert wrong.status_code == 422


def test_a_table_has_no_thumbnails(served: Served, model: str) -> None:
    served.register(f"{model}-table", mlp(3, 2))
    first = served.upload(f"{model}-table", x=np.eye(3)).json()["ids"][0]
    answer = served.http.get(f"/v1/models/{model}-table/samples/{first}/thumbnail")
    assert answer.status_code == 404
    assert "no pictures" in answer.json()["detail"]
