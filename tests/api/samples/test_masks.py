"""Photos with masks over HTTP: they arrive by each door, are checked, train, and come back."""

from __future__ import annotations

import io
import json
import re
from base64 import b64encode
from typing import Any

import numpy as np
import pytest
from masks import CLASSES, PREPROCESS, mask_model, png, scene
from pictures import PREPROCESS as GRAY
from pictures import image_model
from PIL import Image
from support import Served

from service.preprocess.masks.run_lengths import decode, encode

PHOTO, VALUES = scene(1)
HEIGHT, WIDTH = VALUES.shape


@pytest.fixture
def url(served: Served, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", request.node.name)[:60].strip("-")
    served.register(name, mask_model(), classes=CLASSES, preprocess=PREPROCESS)
    return f"/v1/models/{name}"


def send(
    served: Served, url: str, count: int = 1, *, masks: dict[str, bytes] | None = None, **about: Any
) -> Any:
    """Photos 0.png, 1.png, …, and masks by name; without any, the right one of each photo."""
    if masks is None:
        masks = {f"{n}.png": png(scene(n)[1]) for n in range(count)}
    files = [("file", (f"{n}.png", png(scene(n)[0]), "image/png")) for n in range(count)]
    files += [("mask", (name, content, "image/png")) for name, content in masks.items()]
    data = {"samples": json.dumps([about] * count)} if about else {}
    return served.http.post(f"{url}/samples", files=files, data=data)


def photo_alone(served: Served, url: str) -> str:
    answer = send(served, url, masks={})
    assert answer.status_code == 201, answer.text
    return f"{url}/samples/{answer.json()['ids'][0]}"


def values(content: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(content)))


@pytest.mark.parametrize("palette", [False, True])
def test_a_mask_comes_back_as_it_was_sent(served: Served, url: str, palette: bool) -> None:
    sent = png(scene(0)[1], palette=palette)
    answer = send(served, url, masks={"0.png": sent})
    assert answer.status_code == 201, answer.text
    sample = f"{url}/samples/{answer.json()['ids'][0]}"

    assert served.http.get(f"{sample}/mask").content == sent
    assert served.http.get(sample).json()["label"] == {"size": [24, 32], "bytes": len(sent)}
    again = send(served, url, masks={"0.png": sent}).json()
    assert (again["accepted"], again["duplicates"], again["conflicts"]) == (0, 1, 0)
    by_class = served.http.get(f"{url}/samples", params={"label": 1})
    assert "is not one class, by which" in by_class.text


def test_a_mask_may_come_later_as_png_in_base64_or_as_run_lengths(served: Served, url: str) -> None:
    sample = photo_alone(served, url)
    truth = scene(0)[1]
    runs = [{"label": name, **encode(truth == n)} for n, name in enumerate(CLASSES)][1:]
    listed = [{**run, "counts": counts_of(truth == n)} for n, run in enumerate(runs, 1)]

    for label in ({"png": b64encode(png(truth)).decode()}, runs, listed):
        changed = served.http.patch(sample, json={"label": label})
        assert changed.status_code == 200, changed.text
        assert (values(served.http.get(f"{sample}/mask").content) == truth).all()
        served.http.patch(sample, json={"label": None}).raise_for_status()
        assert served.http.get(f"{sample}/mask").status_code == 404
    as_it_is = served.http.patch(sample, content=png(truth), headers={"Content-Type": "image/png"})
    lossy = served.http.patch(sample, content=b"", headers={"Content-Type": "image/jpeg"})
    assert "Content-Type to application/json or image/png" in lossy.json()["detail"]
    assert as_it_is.status_code == 200, as_it_is.text
    assert served.http.get(f"{sample}/mask").content == png(truth)


def counts_of(mask: np.ndarray) -> list[int]:
    """Uncompressed, one pixel after another."""
    counts, value = [0], False
    for pixel in mask.ravel(order="F").tolist():
        if pixel != value:
            counts.append(0)
            value = pixel
        counts[-1] += 1
    return counts


def test_a_photo_is_sent_with_its_run_lengths(served: Served, url: str) -> None:
    truth = scene(0)[1] == 1
    about = {"label": [{"label": "square", **encode(truth)}]}
    answer = send(served, url, masks={}, **about)
    assert answer.status_code == 201, answer.text
    sample = f"{url}/samples/{answer.json()['ids'][0]}"
    assert (values(served.http.get(f"{sample}/mask").content) == truth).all()


JPEG = io.BytesIO()
Image.fromarray(VALUES).save(JPEG, "JPEG")
CUT = png(VALUES)[:-40]
DAMAGED = CUT[:-8] + bytes(8) + png(VALUES)[-40:]
RGB = png(PHOTO)
COUNTS = encode(VALUES == 1)["counts"]


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        (png(VALUES[:, 1:]), "the mask has 31 x 24 pixels, its photo 32 x 24 as it is seen"),
        (png(VALUES + 1), "holds the value 3; the model has classes 0 to 2, and 255 is for"),
        (RGB, "send a PNG of at most 8 bits a pixel, gray or with a palette"),
        (JPEG.getvalue(), "send a PNG of at most 8 bits a pixel"),
        (CUT, "its end is missing"),
        (DAMAGED, "cannot be decoded"),
        (b"", "send a PNG"),
        ({"png": "!"}, '"png" in base64'),
        ({"label": "rim"}, '"png" in base64'),
        ([{"label": "rim", "size": [WIDTH, HEIGHT], "counts": COUNTS}], "the photo is [24, 32]"),
        ([{"label": "rim", "size": [HEIGHT, WIDTH], "counts": [9]}], "make 9 pixels"),
        ([{"label": "rim", "size": [HEIGHT, WIDTH], "counts": [-1, 769]}], "integers from 0"),
        ([{"label": "rim", "size": [HEIGHT, WIDTH], "counts": "~"}], "'~'"),
        ([{"label": "sky", "size": [HEIGHT, WIDTH], "counts": COUNTS}], "'ground', 'square'"),
        ({"size": [HEIGHT, WIDTH], "counts": COUNTS}, "of the label None"),
        ("square", "'square' is one class; the model takes one at each place of"),
    ],
    ids=str,
)
def test_a_mask_that_does_not_fit_is_refused_by_name(
    served: Served, masked: str, mask: Any, says: str
) -> None:
    if isinstance(mask, bytes):
        answer = send(served, masked, 2, masks={"1.png": mask})
    else:
        files = [("file", (f"{n}.png", png(scene(n)[0]))) for n in range(2)]
        data = {"samples": json.dumps([{}, {"label": mask}])}
        answer = served.http.post(f"{masked}/samples", files=files, data=data)
    assert answer.status_code == 422, answer.text
    (problem,) = answer.json()["errors"]
    assert problem["pointer"] == "/files/1/label"
    assert says in problem["detail"]
    assert served.http.get(masked).json()["samples"]["unlabelled"] == 0


@pytest.fixture(scope="module")
def masked(served: Served) -> str:
    """A model without samples."""
    served.register("masked", mask_model(), classes=CLASSES, preprocess=PREPROCESS)
    return "/v1/models/masked"


@pytest.mark.parametrize(
    ("names", "says"),
    [(["b.png"], "no photo has its name"), (["0.png", "0.tiff"], "more than one photo or mask")],
)
def test_a_mask_names_its_photo(served: Served, masked: str, names: list[str], says: str) -> None:
    answer = send(served, masked, masks=dict.fromkeys(names, png(VALUES)))
    assert answer.status_code == 422, answer.text
    (problem,) = answer.json()["errors"]
    assert problem["pointer"] == f"/masks/{len(names) - 1}"
    assert says in problem["detail"]


def test_a_mask_is_of_the_photo_as_it_is_seen(served: Served, url: str) -> None:
    turned, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6  # a quarter turn makes it upright
    Image.fromarray(PHOTO).save(turned, "JPEG", exif=exif)
    files = [
        ("file", ("a.jpg", turned.getvalue(), "image/jpeg")),
        ("mask", ("a.png", png(np.rot90(VALUES, -1).copy()), "image/png")),
    ]
    assert served.http.post(f"{url}/samples", files=files).status_code == 201
    files[1] = ("mask", ("a.png", png(VALUES), "image/png"))
    assert served.http.post(f"{url}/samples", files=files).status_code == 422


def test_masks_train_a_model_and_judge_it(served: Served, url: str) -> None:
    name = url.rpartition("/")[2]
    served.http.patch(url, json={"gate": {"metric": "mean_iou"}}).raise_for_status()
    for split, first, count in (("train", 0, 60), ("validation", 100, 20)):
        files = []
        for n in range(first, first + count):
            photo, mask = scene(n)
            mask = np.where(mask == 1, 255, mask) if n % 10 == 9 else mask
            files += [("file", (f"{n}.png", png(photo))), ("mask", (f"{n}.png", png(mask)))]
        answer = served.http.post(f"{url}/samples", files=files, params={"split": split})
        assert answer.status_code == 201, answer.text

    job = served.train(name, epochs=25, batch_size=8, learning_rate=0.01, seed=1)

    validation, baseline = (job["metrics"][which] for which in ("validation", "baseline"))
    assert validation["mean_iou"] > 0.9
    assert baseline["mean_iou"] < 0.5
    assert len(validation["iou"]) == 3
    made = served.http.get(f"{url}/versions/{job['version']}").json()
    assert made["reason"].startswith("promoted: validation mean_iou went from 0.")
    assert made["verdict"]["validation"]["test"] == "bootstrap"


def test_an_archive_carries_masks_back(served: Served, url: str) -> None:
    send(served, url, 3).raise_for_status()
    archive = served.http.get(f"{url}/samples/archive").content
    other = f"{url}-again"
    served.register(other.rpartition("/")[2], mask_model(), classes=CLASSES, preprocess=PREPROCESS)
    answer = served.http.post(
        f"{other}/samples/archive", content=archive, headers={"Content-Type": "application/zip"}
    )
    assert answer.status_code == 201, answer.text
    for place, sample in enumerate(served.http.get(f"{other}/samples").json()["items"]):
        mask = served.http.get(f"{other}/samples/{sample['id']}/mask")
        assert mask.content == png(scene(place)[1])


def test_a_photo_is_answered_with_a_mask_of_its_own_pixels(served: Served, url: str) -> None:
    """The model's input is square: `cover` cuts four columns off either side."""
    photo = png(scene(0)[0])
    headers = {"Content-Type": "image/png"}
    asked = served.http.post(f"{url}/predict", content=photo, headers=headers)
    answer = served.http.post(
        f"{url}/predict", content=photo, headers={**headers, "Accept": "image/png"}
    )
    assert answer.status_code == 200, answer.text
    assert (answer.headers["content-type"], answer.headers["honed-version"]) == ("image/png", "1")

    mask = values(answer.content)
    label = np.array(asked.json()["predictions"][0]["label"])
    assert mask.shape == (24, 32)
    assert (mask[:, :4] == 255).all()
    assert (mask[:, -4:] == 255).all()
    nearest = ((np.arange(24) + 0.5) * 16 / 24).astype(int)
    assert (mask[:, 4:-4] == label[nearest][:, nearest]).all()
    told = served.http.post(
        f"{url}/predict", params={"masks": True}, content=photo, headers=headers
    )
    runs = told.json()["predictions"][0]["masks"]
    assert {run["label"] for run in runs} == {*(CLASSES[n] for n in np.unique(label)), 255}
    for run in runs:
        value = 255 if run["label"] == 255 else CLASSES.index(run["label"])
        assert (decode(run, (24, 32)) == (mask == value)).all()
    sample = photo_alone(served, url)
    served.http.patch(sample, json={"label": runs}).raise_for_status()
    assert (values(served.http.get(f"{sample}/mask").content) == mask).all()


@pytest.mark.parametrize(
    ("query", "pointer"),
    [({"keep": True}, "/query/keep"), ({"output": "logits"}, "/query/output")],
    ids=["keep", "output"],
)
def test_a_png_says_no_more_than_a_mask(
    served: Served, masked: str, query: dict[str, Any], pointer: str
) -> None:
    headers = {"Content-Type": "image/png", "Accept": "image/png"}
    answer = served.http.post(
        f"{masked}/predict", params=query, content=png(PHOTO), headers=headers
    )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    ("query", "accept", "pointer"),
    [({"masks": True}, "*/*", "/query/masks"), ({}, "image/png", "/header/accept")],
)
def test_a_model_of_classes_has_no_mask(
    served: Served, query: dict[str, Any], accept: str, pointer: str
) -> None:
    if not served.http.get("/v1/models/maskless").is_success:
        served.register("maskless", image_model(), preprocess=GRAY)
    headers = {"Content-Type": "image/png", "Accept": accept}
    answer = served.http.post(
        "/v1/models/maskless/predict", params=query, content=png(PHOTO), headers=headers
    )
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == pointer
    sent = send(served, "/v1/models/maskless", masks={"0.png": png(scene(0)[1])})
    assert "no class for each pixel of its input" in sent.json()["errors"][0]["detail"]


def test_a_mask_in_black_and_white_gets_a_warning(served: Served) -> None:
    served.register("bilevel", mask_model(2), preprocess=PREPROCESS)
    url, square = "/v1/models/bilevel", scene(0)[1] > 0
    as_white = send(served, url, masks={"0.png": png(square * np.uint8(255))}).json()
    assert ["255 does not count" in warning for warning in as_white["warnings"]] == [True]
    for mask in (png(square), png(square * np.uint8(1))):
        assert send(served, url, masks={"0.png": mask}).json()["warnings"] == []


def test_photos_with_good_masks_are_kept_beside_bad_ones_if_asked(served: Served, url: str) -> None:
    files = [("file", (f"{n}.png", png(scene(n)[0]))) for n in range(3)]
    masks = [png(scene(0)[1]), png(scene(1)[1][1:]), png(scene(2)[1])]
    files += [("mask", (f"{n}.png", mask)) for n, mask in enumerate(masks)]
    answer = served.http.post(f"{url}/samples", files=files, params={"on_error": "skip"})
    assert answer.status_code == 201, answer.text
    assert (answer.json()["accepted"], answer.json()["rejected"]) == (2, 1)
    assert answer.json()["errors"][0]["pointer"] == "/files/1/label"
    kept = served.http.get(f"{url}/samples").json()["items"]
    for sample, mask in zip(kept, (masks[0], masks[2]), strict=True):
        assert served.http.get(f"{url}/samples/{sample['id']}/mask").content == mask
