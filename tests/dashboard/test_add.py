"""Adding a model in the console: the file is diagnosed, and what it says is filled in."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from browser import SERIOUS, Tab
from onnx import TensorProto, helper
from own_losses import own_loss, renamed, squared
from pictures import image_model
from support import Served, wait_until


def write_likely(path: Path) -> None:
    """The image model, which ends in probabilities of the two classes that its metadata names."""
    model = onnx.load_from_string(image_model())
    logits = model.graph.output[0].name
    model.graph.node.append(helper.make_node("Softmax", [logits], ["likely"], name="soft"))
    del model.graph.output[:]
    value = helper.make_tensor_value_info("likely", TensorProto.FLOAT, ["batch", 2])
    model.graph.output.append(value)
    model.metadata_props.add(key="classes", value='["dark", "bright"]')
    onnx.save(model, path)


def test_a_dropped_file_shows_what_it_holds_and_fills_the_fields(
    tab: Callable[..., Tab], served: Served, tmp_path: Path
) -> None:
    write_likely(tmp_path / "likely.onnx")
    page = tab(served).open("/add")

    page.get_by_label("Choose a file").set_input_files(tmp_path / "likely.onnx")

    holds = page.get_by_role("region", name="File contents")
    holds.get_by_text('node "soft" (Softmax) gives the probabilities of classes').wait_for()
    assert page.get_by_label("Classes, comma").input_value() == "dark, bright"
    assert page.get_by_label("Sample format").input_value() == "gray"
    logits = onnx.load_from_string(image_model()).graph.output[0].name
    assert page.get_by_label("Output that apps get").input_value() == logits
    parameters = page.get_by_role("region", name="Parameters")
    parameters.get_by_text(re.compile(r"^[\d,]+ trainable$")).wait_for()

    page.get_by_label("Trainable weights").fill("head")
    page.keyboard.press("Tab")
    parameters.get_by_text("below the cut").first.wait_for()
    page.get_by_label("Name", exact=True).fill("likely")
    page.get_by_role("button", name="Register the model").click()
    page.get_by_role("heading", name="likely", exact=True).wait_for()

    model = served.http.get("/v1/models/likely").json()
    assert (model["loss"], model["output"]) == ("cross_entropy", logits)
    assert model["target"]["classes"] == ["dark", "bright"]
    assert model["preprocess"][0]["channels"] == "gray"
    assert model["parameters"]["frozen"] > 0


@pytest.mark.parametrize(("loss", "label"), [("loss", "t"), ("score", "target"), ("score", "t")])
def test_a_loss_of_the_models_own_is_chosen_from_its_outputs(
    tab: Callable[..., Tab], served: Served, tmp_path: Path, loss: str, label: str
) -> None:
    model = own_loss(*squared(axes=[1]), loss=["batch"])
    name = f"own-{loss}-{label}"
    (tmp_path / f"{name}.onnx").write_bytes(renamed(model, {"loss": loss, "t": label}))
    page = tab(served).open("/add")

    page.get_by_label("Choose a file").set_input_files(tmp_path / f"{name}.onnx")

    page.get_by_role("region", name="File contents").wait_for()
    losses = page.get_by_label("Loss")
    suggested = f"output:{loss}" if (loss, label) != ("score", "t") else "cross_entropy"
    assert losses.input_value() == suggested
    losses.select_option(f"output:{loss}")
    page.get_by_label("Trainable weights").fill("v")
    page.keyboard.press("Tab")
    page.get_by_text("frozen").first.wait_for()
    assert losses.input_value() == f"output:{loss}", "a check of other fields leaves the loss"
    page.get_by_role("button", name="Register the model").click()
    page.get_by_role("heading", name=name, exact=True).wait_for()
    registered = served.http.get(f"/v1/models/{name}").json()
    assert (registered["loss"], registered["output"]) == ({"output": loss}, "y")
    assert registered["target"]["name"] == label


def test_a_model_is_not_registered_before_its_loss_is_suggested(
    tab: Callable[..., Tab], served: Served, tmp_path: Path
) -> None:
    onnx.save(own_loss(*squared()), tmp_path / "hasty.onnx")
    page = tab(served).open("/add")
    register = page.get_by_role("button", name="Register the model")
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route("**/v1/diagnosis", hold)

    page.get_by_label("Choose a file").set_input_files(tmp_path / "hasty.onnx")
    wait_until(lambda: page.evaluate("true") and held, "the check to be asked for")
    assert register.is_disabled()
    held[0].continue_()
    page.get_by_role("region", name="File contents").wait_for()
    register.click()

    page.get_by_role("heading", name="hasty", exact=True).wait_for()
    assert served.http.get("/v1/models/hasty").json()["loss"] == {"output": "loss"}


def test_a_file_that_cannot_train_names_the_node_before_it_is_registered(
    tab: Callable[..., Tab], served: Served, tmp_path: Path, axe: str
) -> None:
    model = onnx.load_from_string(image_model())
    end = model.graph.output[0].name
    model.graph.node.append(helper.make_node("RandomNormalLike", [end], ["noise"], name="dice"))
    model.graph.node.append(helper.make_node("Add", [end, "noise"], ["y"], name="sum"))
    model.graph.output[0].name = "y"
    onnx.save(model, tmp_path / "noisy.onnx")
    page = tab(served).open("/add")

    page.get_by_label("Choose a file").set_input_files(tmp_path / "noisy.onnx")

    told = page.get_by_role("region", name="The file cannot be registered with these settings")
    told.get_by_role("alert").get_by_text('node "dice" (RandomNormalLike)').wait_for()
    page.evaluate(axe)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(SERIOUS) == []
