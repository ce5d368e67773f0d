"""One odd picture among good ones: it trains, is asked about, or is set aside; never more."""

from __future__ import annotations

import io
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from daemon_process import start_program
from pictures import PREPROCESS, image_model, photo
from PIL import Image as Pillow
from support import Served

SPEC = {"classes": ["dark", "bright"], "preprocess": {**PREPROCESS, "resize": "contain"}}
MEMORY_BYTES = 280 << 20


def thin() -> bytes:
    buffer = io.BytesIO()
    Pillow.new("RGB", (600, 2), "red").save(buffer, "PNG")
    return buffer.getvalue()


def with_odd_exif() -> bytes:
    entries = struct.pack(">HHIHH", 0x0112, 3, 1, 6, 0)
    entries += struct.pack(">HHI4s", 0x011A, 2, 4, b"odd\0")
    exif = b"Exif\0\0MM\0*" + struct.pack(">IH", 8, 2) + entries + bytes(4)
    buffer = io.BytesIO()
    Pillow.open(io.BytesIO(photo(60, 5))).save(buffer, "PNG", exif=exif)
    return buffer.getvalue()


def huge() -> bytes:
    buffer = io.BytesIO()
    Pillow.new("RGBA", (7000, 7000), (9, 9, 9, 9)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def upload(served: Served, model: str, odd: bytes) -> int:
    """Twelve good pictures and the odd one, labelled; the id of the odd one."""
    served.register(model, image_model(), **SPEC)
    good = [(f"{n}.png", photo([60, 190][n % 2], n)) for n in range(12)]
    answer = served.http.post(
        f"/v1/models/{model}/samples",
        files=[("file", each) for each in [*good, ("odd.png", odd)]],
        params={"label": "dark", "split": "train"},
    )
    assert answer.status_code == 201, answer.text
    last: int = answer.json()["ids"][1]
    return last


@pytest.mark.parametrize("make", [thin, with_odd_exif])
def test_an_odd_picture_trains_like_any_other(served: Served, make: Callable[[], bytes]) -> None:
    model = f"odd-{make.__name__.replace('_', '-')}"
    sample = upload(served, model, make())

    served.train(model, epochs=1)

    url = f"/v1/models/{model}"
    asked = served.http.post(
        f"{url}/predict", content=make(), headers={"Content-Type": "image/png"}
    )
    served.http.patch(f"{url}/samples/{sample}", json={"label": None})
    query = {"unlabelled": True, "order": "uncertainty"}
    doubtful = served.http.get(f"{url}/samples", params=query)
    assert asked.status_code == 200, asked.text
    assert [entry["id"] for entry in doubtful.json()["items"]] == [sample]
    assert served.http.get(f"{url}/samples/stats").json()["quarantined"] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the child limits its memory on Linux only")
def test_a_picture_that_exceeds_the_memory_limit_is_set_aside(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(tmp_path / "narrow", start=start_program, training_memory_bytes=MEMORY_BYTES)
    sample = upload(served, "narrow", huge())

    job = served.train("narrow", epochs=1)

    url = "/v1/models/narrow/samples"
    listed = served.http.get(url, params={"quarantined": True}).json()["items"]
    assert [each["id"] for each in listed] == [sample]
    assert "does not fit into memory" in listed[0]["quarantine"]
    assert job["restarts"] == 0
    served.http.patch(f"{url}/{sample}", json={"label": None})
    doubtful = served.http.get(url, params={"unlabelled": True, "order": "uncertainty"})
    assert doubtful.status_code == 200, doubtful.text


def test_an_empty_label_is_none(served: Served) -> None:
    served.register("empty-label", image_model(), **SPEC)
    answer = served.http.post(
        "/v1/models/empty-label/samples",
        params={"label": ""},
        content=photo(60, 1),
        headers={"Content-Type": "image/png"},
    )

    assert answer.status_code == 201, answer.text
    assert served.http.get("/v1/models/empty-label").json()["samples"]["unlabelled"] == 1


def test_two_files_of_one_name_cannot_be_told_apart_by_it(served: Served) -> None:
    served.register("same-name", image_model(), **SPEC)
    url, files = "/v1/models/same-name/samples", [("file", ("a.png", photo(60, n))) for n in (1, 2)]

    by_name = served.http.post(url, files=files, data={"samples": '{"a.png": {"label": "dark"}}'})
    in_order = served.http.post(url, files=files, data={"samples": '[{"label": "dark"}, {}]'})

    assert by_name.status_code == 422
    assert by_name.json()["errors"][0] == {
        "pointer": "/samples/a.png",
        "detail": "2 files are named 'a.png'; send a list in their order",
    }
    assert in_order.status_code == 201, in_order.text
