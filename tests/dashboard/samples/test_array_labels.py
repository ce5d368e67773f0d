"""Samples that are more than a class: masks, numbers with names or without, quarantined ones."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from browser import LOW_CONTRAST, SERIOUS, Tab
from embeddings import embedding_model
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from support import Served, mlp, wait_until

CLASSES = ["sky", "road", "car" * 80]
SIDE = 32
BOXES = 20
"""A label of more numbers than are shown."""


def model(node: onnx.NodeProto, output: list[int | str], **weights: np.ndarray) -> bytes:
    """`image`, flattened if the weight is a matrix → the node → `y`."""
    flat = helper.make_node("Flatten", ["image"], ["flat"])
    graph = helper.make_graph(
        [*([flat] if node.op_type == "Gemm" else []), node],
        "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", *output])],
        [numpy_helper.from_array(array.astype(np.float32), n) for n, array in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = made.SerializeToString()
    return content


@pytest.fixture(scope="module")
def arrays(served: Served) -> Served:
    """Red photos whose labels are masks with all classes, and others whose labels are numbers."""
    pixel = {"w": np.eye(3)[:, :, None, None], "b": np.zeros(3)}
    convolution = helper.make_node("Conv", ["image", "w", "b"], ["y"])
    served.register("masks", model(convolution, [3, SIDE, SIDE], **pixel), classes=CLASSES)
    label = np.zeros((30, SIDE, SIDE), np.int64)
    label[:, SIDE // 2 :, SIDE // 2 :] = 1
    label[:, -2:, -2:] = 2
    served.upload("masks", split="train", image=photos(30), label=label).raise_for_status()
    whole = {"w": np.full((3 * SIDE * SIDE, BOXES), 1e-4), "b": np.zeros(BOXES)}
    product = helper.make_node("Gemm", ["flat", "w", "b"], ["y"])
    served.register("boxes", model(product, [BOXES], **whole), loss="l1")
    numbers = np.random.default_rng(0).random((30, BOXES), np.float32)
    served.upload("boxes", split="train", image=photos(30), label=numbers).raise_for_status()
    return served


def photos(count: int) -> np.ndarray:
    """Red, each a little different."""
    image = np.zeros((count, 3, SIDE, SIDE), np.float32)
    image[:, 0] = 1 - np.arange(count, dtype=np.float32)[:, None, None] / 1000
    return image


def centre(element: Any) -> tuple[int, ...]:
    """The colour of the middle of what the screen shows of an element."""
    shown = Image.open(io.BytesIO(element.screenshot())).convert("RGB")
    return shown.getpixel((shown.width // 2, shown.height // 2))


@pytest.mark.parametrize(
    ("name", "text"), [("masks", "sky, road, carcar"), ("boxes", "20 numbers")]
)
def test_pictures_are_seen_whatever_their_label_is(
    tab: Callable[..., Tab], arrays: Served, name: str, text: str
) -> None:
    page = tab(arrays).open(f"/models/{name}/samples")
    cell = page.get_by_role("option", name=text).first
    picture = cell.locator("canvas[width='32']")
    picture.wait_for()

    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert picture.bounding_box()["width"] <= cell.bounding_box()["width"]
        red, green, blue = centre(picture)
        assert red > 200
        assert max(green, blue) < 50
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", ["masks", "boxes"])
def test_no_class_is_offered_as_the_label_of_an_array(
    tab: Callable[..., Tab], arrays: Served, name: str
) -> None:
    before = arrays.http.get(f"/v1/models/{name}/samples").json()["items"][0]
    page = tab(arrays).open(f"/models/{name}/samples")
    first = page.locator("[role=option]").first
    first.click()
    tools = page.get_by_role("group", name="Labelling")
    tools.get_by_role("button", name="Delete … 1 sample").wait_for()

    page.keyboard.press("1")

    assert tools.locator("kbd").all_inner_texts() == ["U"]
    assert page.locator("[data-key=label] select").count() == 0
    shows = page.locator("[data-key=show] option").all_inner_texts()
    assert "Possibly wrong labels" not in shows
    assert "active" in first.get_attribute("class"), "a digit that labels moves on"
    assert arrays.http.get(f"/v1/models/{name}/samples").json()["items"][0] == before


def test_a_predicted_mask_is_drawn_beside_the_label(
    tab: Callable[..., Tab], arrays: Served
) -> None:
    found = arrays.http.get("/v1/models/masks/samples").json()["items"][0]
    page = tab(arrays).open(f"/models/masks/try?sample={found['id']}")
    answer = page.get_by_role("region", name="Prediction of version 1")
    label, predicted = (
        answer.locator(f"figure[data-key={name}]") for name in ("label", "predicted")
    )

    predicted.locator("canvas[width='32']").wait_for()

    assert len(set(colours(label))) == 3
    assert set(colours(predicted)) == {(0, 0, 0)}, "all is sky"
    answer.get_by_role("listitem").filter(has_text="sky").get_by_text("100.0 %").wait_for()
    assert answer.get_by_role("button").count() == 0


def test_predicted_numbers_are_told_beside_the_label(
    tab: Callable[..., Tab], arrays: Served
) -> None:
    found = arrays.http.get("/v1/models/boxes/samples").json()["items"][0]
    page = tab(arrays).open(f"/models/boxes/try?sample={found['id']}")
    answer = page.get_by_role("region", name="Prediction of version 1")

    answer.locator("figure[data-key=predicted] p").wait_for()

    label = answer.locator("figure[data-key=label] p").inner_text().split()
    assert [float(each) for each in label] == pytest.approx(found["label"], rel=0.01)
    # All weights are 1e-4, and one of three channels is red.
    predicted = answer.locator("figure[data-key=predicted] p").inner_text().split()
    assert [float(each) for each in predicted] == pytest.approx([0.102] * BOXES, rel=0.05)


def colours(figure: Any) -> list[tuple[int, ...]]:
    """Of the pixels of its canvas."""
    pixels = figure.locator("canvas").evaluate(
        "it => [...it.getContext('2d').getImageData(0, 0, it.width, it.height).data]"
    )
    return [tuple(pixels[at : at + 3]) for at in range(0, len(pixels), 4)]


NAMES = ["temperature", "humidity"]
URL = "/v1/models/greenhouse-page"


def test_numbers_are_set_by_name_taken_back_and_predicted(
    tab: Callable[..., Tab], served: Served, axe: str
) -> None:
    served.register("greenhouse-page", mlp(4, 2), loss="mse", classes=NAMES)
    served.upload("greenhouse-page", x=np.arange(8, dtype=np.float32).reshape(2, 4))
    first = served.http.get(f"{URL}/samples").json()["items"][0]["id"]
    page = tab(served).open("/models/greenhouse-page/samples")

    def label() -> object:
        return served.http.get(f"{URL}/samples/{first}").json()["label"]

    option = page.get_by_role("option", name=f"Sample {first}, no label")
    option.click()
    form = page.get_by_role("form", name="Numbers of the label")
    form.get_by_label("humidity").fill("40.5")
    form.get_by_role("button", name="Set").click()
    page.get_by_role("option", name="temperature ?, humidity 40.5").wait_for()
    assert label() == {"temperature": None, "humidity": 40.5}
    form.get_by_label("temperature").fill("-3")
    form.get_by_label("temperature").press("Enter")
    page.get_by_role("option", name="temperature -3, humidity 40.5").wait_for()
    page.get_by_role("button", name="Undo").click()
    wait_until(lambda: label() == {"temperature": None, "humidity": 40.5}, "the undo")

    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []
    page.get_by_role("link", name=f"Predict sample {first}").click()
    predicted = page.locator("[data-key=predicted]")
    predicted.wait_for()
    assert predicted.locator("dt").all_inner_texts() == NAMES


def test_quarantined_samples_say_why(tab: Callable[..., Tab], served: Served) -> None:
    served.register("words", embedding_model())
    ids = np.arange(70).reshape(10, 7) % 30
    ids[3, 2] = 99
    served.upload("words", split="train", x=ids, label=np.arange(10) % 2)
    served.train("words", epochs=1, ignore_policy=True)
    page = tab(served, viewport={"width": 390, "height": 844}).open("/models/words/samples")

    row, other = (page.locator("[role=option]").nth(at) for at in (3, 4))
    row.click()
    page.get_by_text("Quarantined: it asks for row 99 of a table that has 30").wait_for()
    boxes = [each.bounding_box() for each in (row, other)]
    assert boxes[0] | {"y": 0} == boxes[1] | {"y": 0}
    assert page.evaluate(LOW_CONTRAST) == []
