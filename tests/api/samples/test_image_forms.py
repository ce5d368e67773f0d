"""Forms that carry photos: many files at once, and forms that are wrong."""

from __future__ import annotations

import pytest
from pictures import PREPROCESS, image_model, photo
from support import Served


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("forms", image_model(), classes=["dark", "bright"], preprocess=PREPROCESS)
    return "forms"


@pytest.mark.parametrize(
    ("about", "pointer"),
    [
        ("no json", "/samples"),
        ("[{}, {}]", "/samples"),
        ('{"z.png": {}}', "/samples/z.png"),
        ('\ufeff{"z.png": {}}', "/samples/z.png"),
        (b'[{"key": "\xe9"}]', "/samples"),
    ],
)
def test_a_wrong_samples_part_is_named(
    served: Served, model: str, about: str | bytes, pointer: str
) -> None:
    answer = served.http.post(
        f"/v1/models/{model}/samples",
        files=[("file", ("a.png", photo(60, 1)))],
        data={"samples": about},
    )
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("data", [{"label": "dark"}, {"samples": ["[{}]", "[{}]"]}])
def test_a_part_that_would_be_ignored_is_refused(
    served: Served, model: str, data: dict[str, str]
) -> None:
    files = [("file", ("a.png", photo(60, 1)))]
    answer = served.http.post(f"/v1/models/{model}/samples", files=files, data=data)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == f"/{next(iter(data))}"
    assert served.http.get(f"/v1/models/{model}/samples").json()["items"] == []


BOUNDARY = "b0undary"
WHOLE = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n'
    "Content-Type: image/png\r\n\r\nnot a picture\r\n"
)


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (WHOLE, f"multipart/form-data; boundary={BOUNDARY}", "before its last boundary"),
        (f"{WHOLE}--{BOUNDARY}--\r\n", "multipart/form-data", "no boundary"),
        ("", f"multipart/form-data; boundary={'b' * 50_000}", "more than 70 bytes"),
        ("", f"multipart/form-data; boundary={BOUNDARY}", "before its last boundary"),
        ("nonsense", f"multipart/form-data; boundary={BOUNDARY}", "multipart/form-data"),
        (f"--{BOUNDARY}--\r\n", f"multipart/form-data; boundary={BOUNDARY}", "at least one image"),
        (f"{WHOLE}--{BOUNDARY}--\r\n", f"multipart/form-data; boundary={BOUNDARY}", "a.png: it is"),
    ],
    ids=["cut", "no boundary", "long boundary", "empty", "no form", "no files", "no picture"],
)
def test_a_wrong_form_is_refused(
    served: Served, model: str, body: str, content_type: str, words: str
) -> None:
    answer = served.http.post(
        f"/v1/models/{model}/samples",
        content=body.encode(),
        headers={"Content-Type": content_type},
    )
    assert answer.status_code == 422, answer.text
    assert words in answer.text


def test_a_thousand_files_go_up_at_once_and_some_may_be_bad(served: Served, model: str) -> None:
    bad = b"%PDF-1.7"
    files = [(f"{n}.png", bad if n % 100 == 7 else photo(60, n)) for n in range(1000)]

    answer = served.http.post(
        f"/v1/models/{model}/samples",
        params={"on_error": "skip", "label": "dark", "split": "train"},
        files=[("file", file) for file in files],
    )

    assert (answer.json()["accepted"], answer.json()["rejected"]) == (990, 10), answer.text
    assert answer.json()["errors"][0]["pointer"] == "/files/7"
    counts = served.http.get(f"/v1/models/{model}").json()["samples"]
    assert counts == {"train": 990, "validation": 0, "unlabelled": 0, "base": 0}
