"""Windows of series and recordings in the console: registered, uploaded, seen, heard and tried."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from browser import SERIOUS, Tab
from onnx import TensorProto, helper
from recordings import RATE, sound_model, tone, written
from support import Served, mlp

from service.preprocess.audio import CHOICES as AUDIO
from service.preprocess.audio import FIXED as FIXED_AUDIO
from service.preprocess.image import CHOICES as IMAGE
from service.preprocess.image import FIXED as FIXED_IMAGE
from service.preprocess.windows import CHOICES as WINDOWS

FORM = Path(__file__).parents[3] / "dashboard" / "src" / "views" / "models" / "preprocess.ts"
NOTE_SOUNDS = """
() => {
  window.started = [];
  const start = AudioBufferSourceNode.prototype.start;
  AudioBufferSourceNode.prototype.start = function (...times) {
    window.started.push(this.buffer.duration);
    return start.apply(this, times);
  };
}
"""
"""Which recordings are played; they play all the same."""


def window_model(*shape: int) -> bytes:
    """An MLP whose input `x` is a window."""
    model = onnx.load_from_string(mlp(shape[0] * shape[1], 8, 2, inputs="flat"))
    graph = model.graph
    graph.node.insert(0, helper.make_node("Flatten", ["x"], ["flat"]))
    del graph.input[:]
    graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape]))
    content: bytes = model.SerializeToString()
    return content


def register(page: Any, file: Path, samples: str) -> None:
    page.get_by_label("Choose a file").set_input_files(file)
    page.get_by_role("region", name="File contents").wait_for()
    page.get_by_label("Sample format").select_option(samples)
    page.get_by_label("Classes, comma").fill("low, high")
    page.get_by_role("button", name="Register the model").click()
    page.get_by_role("heading", name=file.stem, exact=True).wait_for()


@pytest.mark.parametrize("layout", ["time_first", "channels_first"])
def test_windows_are_registered_and_their_stride_is_set(
    tab: Callable[..., Tab], served: Served, tmp_path: Path, layout: str
) -> None:
    name = layout.replace("_", "-")
    shape, samples = (
        ((30, 3), "windows") if layout == "time_first" else ((3, 30), "windows, turned")
    )
    (tmp_path / f"{name}.onnx").write_bytes(window_model(*shape))
    page = tab(served).open("/add")

    register(page, tmp_path / f"{name}.onnx", samples)

    page.get_by_role("link", name="Settings").click()
    form = page.get_by_role("region", name="Preprocessing")
    assert form.get_by_label("length").count() == 0
    form.locator("[name=label]").select_option("last")
    form.get_by_label("stride").fill("10")
    form.get_by_role("button", name="Save").click()
    page.get_by_text(f"Preprocessing of {name} saved.").wait_for()
    (known,) = served.http.get(f"/v1/models/{name}").json()["preprocess"]
    assert (known["kind"], known["layout"], known["length"]) == ("windows", layout, 30)
    assert (known["stride"], known["label"]) == (10, "last")


@pytest.fixture
def tones(tmp_path: Path) -> Path:
    """A model's file, and sixteen recordings in folders that are named after their classes."""
    (tmp_path / "tones.onnx").write_bytes(sound_model())
    for name, hertz in (("low", 300), ("high", 1500)):
        (tmp_path / "all" / name).mkdir(parents=True)
        for at in range(8):
            kind = "FLAC" if at % 2 else "WAV"
            file = tmp_path / "all" / name / f"{at}.{kind.lower()}"
            file.write_bytes(written(tone(hertz, at), kind=kind))
    (tmp_path / "all" / "notes.txt").write_text("no recording")
    return tmp_path


def test_recordings_are_registered_uploaded_heard_and_tried(
    tab: Callable[..., Tab], served: Served, tones: Path, axe: str
) -> None:
    one = tab(served)
    page = one.open("/add")
    register(page, tones / "tones.onnx", "audio")
    set_rate(page)
    one.forgive("422")

    page.get_by_role("link", name="Samples").click()
    page.get_by_label("Choose a folder").set_input_files(tones / "all")

    page.get_by_text("16 samples added, 1 problem.").wait_for()
    page.get_by_text("1 file skipped: this model takes WAV and FLAC recordings").wait_for()
    items = served.http.get("/v1/models/tones/samples").json()["items"]
    assert sorted(entry["label"] for entry in items) == [0] * 8 + [1] * 8
    page.get_by_role("img", name="Loudness over 0.3 s").nth(15).wait_for()
    page.evaluate(axe)
    assert page.evaluate(SERIOUS) == []
    page.evaluate(NOTE_SOUNDS)
    page.locator("[role=option]").first.click()
    page.get_by_role("button", name=re.compile("^Play sample")).click()
    page.wait_for_function("() => window.started.length === 1")
    assert page.evaluate("window.started[0]") == pytest.approx(0.3, abs=0.01)

    page.get_by_role("link", name="Try it").click()
    page.get_by_label("Choose a recording").set_input_files(tones / "all" / "low" / "1.flac")
    page.get_by_role("button", name="high is right").click()
    page.get_by_role("status").get_by_text("Saved as a sample labelled high.").wait_for()


def set_rate(page: Any) -> None:
    """Change the rate, which the highest frequency must fit, and the logarithm."""
    page.get_by_role("link", name="Settings").click()
    form = page.get_by_role("region", name="Preprocessing")
    form.get_by_label("sample_rate").fill(str(RATE))
    form.get_by_role("button", name="Save").click()
    form.locator("[data-key=f_max] .problem").wait_for()
    form.get_by_label("f_max").fill(str(RATE // 2))
    form.locator("[name=log]").select_option("decibel")
    form.get_by_role("button", name="Save").click()
    page.get_by_text("Preprocessing of tones saved.").wait_for()


def test_the_form_knows_every_choice_of_preprocessing() -> None:
    text = FORM.read_text("utf-8")
    choices, _, fixed = text.partition("const FIXED")

    for kind, known in (("image", IMAGE), ("windows", WINDOWS), ("audio", AUDIO)):
        of_kind = re.search(rf"\n  {kind}: \{{(.*?)\}},\n", choices, re.DOTALL)[1]
        for name, values in known.items():
            if len(values) == 1:
                continue  # it is fixed
            listed = ", ".join(f'"{value}"' for value in values)
            assert f"{name}: [{listed}]" in of_kind, (kind, name)
    for kind, names in (("image", FIXED_IMAGE), ("audio", FIXED_AUDIO)):
        listed = re.search(rf"\n  {kind}: \[(.*?)\]", fixed)[1]
        assert set(re.findall(r'"(\w+)"', listed)) == set(names)
