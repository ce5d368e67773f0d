"""Kind `windows`: sections of a sensor recording, standardized by channel.

A recording of many rows is cut into windows when it is uploaded
(service/samples/ingest/windows.py); other tensors are already windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from service.preprocess.augmentation.series import SeriesAugmentation
from service.preprocess.checks import WrongDescription, chosen, refuse_unknown
from service.preprocess.standardize import FIELDS as STANDARDIZE_FIELDS
from service.preprocess.standardize import Standardize
from storage.arrays import NDArray
from storage.records.signatures import TargetSpec, TensorSpec

CHOICES = {"layout": ("time_first", "channels_first"), "label": ("majority", "last")}
"""The choices; the first is the default."""
LONGEST = 100_000
CHANNEL, HORIZON = "channel", "horizon"
"""The fields of a forecast, whose horizon has at most so many rows."""
FIELDS = (*STANDARDIZE_FIELDS, *CHOICES, "length", "stride", "forecast")


class ForecastLabels(Struct, frozen=True):
    """Labels that a recording holds itself: channels, some rows after a window.

    channels: names of CSV columns, or their indices. horizon: the rows from a window's last one
    to the last one that its label holds.
    """

    channels: tuple[str | int, ...]
    horizon: int

    @classmethod
    def parse(cls, description: Any, channels: int) -> ForecastLabels | None:
        """None if it is absent. channels: how many a row has. Raises WrongDescription."""
        if description is None:
            return None
        if not isinstance(description, dict):
            raise WrongDescription("/forecast", "a forecast has a channel and a horizon, in rows")
        refuse_unknown(description, (CHANNEL, HORIZON))
        horizon = description.get(HORIZON)
        if type(horizon) is not int or not 1 <= horizon <= LONGEST:
            detail = f"horizon is a whole number of rows from 1 to {LONGEST}"
            raise WrongDescription("/forecast/horizon", detail)
        channel = description.get(CHANNEL)
        if channel is None:
            channel = [*range(channels)]
        listed = tuple(channel) if isinstance(channel, list | tuple) else (channel,)
        known = all(type(channel) in (str, int) for channel in listed)
        if not listed or not known or len(set(listed)) < len(listed):
            detail = "channel is the name of a column, its index, or a list of different ones"
            raise WrongDescription("/forecast/channel", detail)
        beyond = [each for each in listed if isinstance(each, int) and not 0 <= each < channels]
        if beyond:
            detail = f"there is no channel {beyond[0]}; there are 0 to {channels - 1}"
            raise WrongDescription("/forecast/channel", detail)
        return cls(listed, horizon)

    def describe(self) -> dict[str, Any]:
        one = len(self.channels) == 1
        return {CHANNEL: self.channels[0] if one else [*self.channels], HORIZON: self.horizon}

    def steps(self, target: TargetSpec) -> int:
        """How many rows a label holds: the last of the horizon, or all of it.

        target: float32; of its shape, axes of 1 may be left out or added. Raises WrongDescription.
        """
        channels, shape = len(self.channels), tuple(size for size in target.shape if size > 1)
        for steps in (1, self.horizon):
            wanted = tuple(size for size in (steps, channels) if size > 1)
            if (target.dtype, target.num_classes, shape) == ("float32", None, wanted):
                return steps
        held = "class indices" if target.num_classes else f"{target.dtype} {list(target.shape)}"
        detail = (
            f"the model's labels are {held}; a forecast of {channels} channels is float32 "
            f"{[channels]}, or {[self.horizon, channels]} for each row up to the horizon"
        )
        raise WrongDescription("/forecast", detail)

    def places(self, features: Sequence[str] | None) -> list[int]:
        """The indices of the channels. features: the names of all. Raises WrongDescription."""
        names = list(features or ())
        for channel in self.channels:
            if isinstance(channel, str) and channel not in names:
                known = f"there are {names[:20]}" if names else "the model has no features yet"
                detail = f"there is no channel {channel[:100]!r}; {known}"
                raise WrongDescription("/forecast/channel", detail)
        return [each if isinstance(each, int) else names.index(each) for each in self.channels]


@dataclass(frozen=True)
class Windows(Standardize):
    """layout: of the input. length, stride: in rows. label: of a window's rows, which counts.
    forecast: what of the rows after it is its label instead.

    mean, std: one value per channel.
    """

    kind: ClassVar[str] = "windows"

    layout: str = "time_first"
    length: int = 0
    channels: int = 0
    stride: int = 0
    label: str = "majority"
    forecast: ForecastLabels | None = None

    @classmethod
    def parse(cls, description: Mapping[str, Any], spec: TensorSpec) -> Windows:
        """Raises WrongDescription."""
        fields = chosen(description, FIELDS, CHOICES)
        length, channels = _length_and_channels(spec, fields["layout"])
        if fields.get("length", length) != length:
            detail = f"the input {spec.name!r} has shape {list(spec.shape)}: length is {length}"
            raise WrongDescription("/length", detail)
        stride = fields.get("stride", length)
        if type(stride) is not int or not 1 <= stride <= length:
            raise WrongDescription("/stride", f"stride is an integer from 1 to length, {length}")
        own = {name: value for name, value in description.items() if name in STANDARDIZE_FIELDS}
        rows = TensorSpec(spec.name, spec.dtype, (length, channels))
        plain = Standardize.parse({**own, "augment": None}, rows)
        return cls(
            plain.input,
            plain.mean,
            plain.std,
            plain.learn_from,
            _augmentation(
                description, spec, time_axis=0 if fields["layout"] == "time_first" else 1
            ),
            layout=fields["layout"],
            length=length,
            channels=channels,
            stride=stride,
            label=fields["label"],
            forecast=ForecastLabels.parse(description.get("forecast"), channels),
        )

    @classmethod
    def sizes(cls, description: Mapping[str, Any]) -> tuple[int | None, ...]:
        length = description.get("length")
        known = length if type(length) is int and 1 <= length <= LONGEST else None
        return (None, known) if description.get("layout") == "channels_first" else (known, None)

    def check_target(self, target: TargetSpec) -> None:
        if self.forecast is None:
            return
        if self.label != "majority":
            raise WrongDescription("/label", "a forecast is the label, not a row's; leave it out")
        self.forecast.steps(target)

    def describe(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in (*CHOICES, "length", "stride")}
        if self.forecast is not None:
            own["forecast"] = self.forecast.describe()
        return {**super().describe(), **own}

    def apply(self, rows: NDArray[Any]) -> NDArray[Any]:
        scaled = super().apply(self.by_time(rows))
        return self.laid(scaled).reshape(rows.shape)

    def learn(self, chunks: Iterable[NDArray[Any]]) -> Standardize:
        return super().learn(map(self.by_time, chunks))

    def laid(self, windows: NDArray[Any]) -> NDArray[Any]:
        """Windows in the layout of the input. windows: (n, length, channels)."""
        laid: NDArray[Any] = windows.swapaxes(1, 2) if self._is_turned else windows
        return laid

    def row_spec(self, spec: TensorSpec) -> TensorSpec:
        """One row of a recording."""
        return replace(spec, shape=(self.channels,))

    def by_time(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Windows in the layout of the input as (n, length, channels)."""
        if not self._is_turned:
            return rows.reshape(-1, self.length, self.channels)
        turned: NDArray[Any] = rows.reshape(-1, self.channels, self.length).swapaxes(1, 2)
        return turned

    @property
    def _is_turned(self) -> bool:
        return self.layout == "channels_first"


def _length_and_channels(spec: TensorSpec, layout: str) -> tuple[int, int]:
    shape = spec.shape
    if len(shape) == 1:
        shape = (shape[0], 1) if layout == "time_first" else (1, shape[0])
    if len(shape) != 2:
        order = "[length, channels]" if layout == "time_first" else "[channels, length]"
        detail = f"the input {spec.name!r} has shape {list(spec.shape)}; a window has {order}"
        raise WrongDescription("/layout", f"{detail} ({layout})")
    return (shape[0], shape[1]) if layout == "time_first" else (shape[1], shape[0])


def _augmentation(
    description: Mapping[str, Any], spec: TensorSpec, *, time_axis: int
) -> SeriesAugmentation | None:
    augment = SeriesAugmentation.parse(description.get("augment"))
    if augment is None:
        return None
    augment = replace(augment, time_axis=time_axis if len(spec.shape) > 1 else 0)
    augment.check_shape(spec)
    return augment
