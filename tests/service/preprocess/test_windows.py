"""Windows of sensors: checked like what standardizes, by channel whatever the layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.preprocess import for_signature, parse
from service.preprocess.checks import WrongDescription
from service.preprocess.windows import Windows
from storage.records.signatures import Signature, TargetSpec, TensorSpec

BY_TIME = TensorSpec("x", "float32", (20, 3))
BY_CHANNEL = TensorSpec("x", "float32", (3, 20))
FLAT = TensorSpec("x", "float32", (20,))


def windows(spec: TensorSpec = BY_TIME, **given: Any) -> Windows:
    return Windows.parse({"kind": "windows", **given}, spec)


def test_the_description_has_all_defaults_and_is_read_back_the_same() -> None:
    signature = Signature((BY_CHANNEL,), TargetSpec("labels", "int64", (), 2))
    given = {"kind": "windows", "layout": "channels_first", "augment": {"shift": 0.1}}
    (described,) = parse(given, signature)

    assert (described["length"], described["stride"], described["label"]) == (20, 20, "majority")
    assert described["augment"]["time_axis"] == 1
    assert parse(described, signature) == (described,)
    assert isinstance(for_signature(signature, [described]).kinds["x"], Windows)


@pytest.mark.parametrize("spec", [BY_TIME, BY_CHANNEL, FLAT])
def test_each_channel_is_standardized(spec: TensorSpec) -> None:
    channels_first = spec is BY_CHANNEL
    channels = 1 if spec is FLAT else 3
    series = np.random.default_rng(0).normal([5, -3, 100], [1, 2, 30], (50, 20, 3))
    rows = series[..., :channels].swapaxes(1, 2 if channels_first else 1).astype("f4")
    rows = rows.reshape(50, *spec.shape)
    layout = "channels_first" if channels_first else "time_first"

    learned = windows(spec, layout=layout).learn([rows[:20], rows[20:]])
    made = learned.apply(rows)

    assert learned.mean is not None
    assert len(learned.mean) == channels
    assert made.shape == rows.shape
    assert made.dtype == np.float32
    by_time = made.reshape(50, channels, 20) if channels_first else made.reshape(50, 20, channels)
    axes = (0, 2) if channels_first else (0, 1)
    np.testing.assert_allclose(by_time.mean(axis=axes), 0, atol=1e-4)
    np.testing.assert_allclose(by_time.std(axis=axes), 1, atol=1e-4)


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"length": 21}, "/length"),
        ({"stride": 0}, "/stride"),
        ({"stride": 21}, "/stride"),
        ({"label": "first"}, "/label"),
        ({"layout": "sideways"}, "/layout"),
        ({"mean": [1, 2], "std": [1, 2]}, "/mean"),
        ({"width": 3}, "/width"),
        ({"augment": {"flip": 1}}, "/augment/flip"),
    ],
)
def test_a_description_that_does_not_fit_names_the_field(
    given: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(WrongDescription) as wrong:
        windows(**given)
    assert wrong.value.pointer == pointer


def test_an_input_that_is_no_window_is_refused() -> None:
    with pytest.raises(WrongDescription, match=r"a window has \[length, channels\]"):
        windows(TensorSpec("x", "float32", (1, 20, 3)))
