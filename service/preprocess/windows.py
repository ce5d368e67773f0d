"""Kind `windows`: sections of a sensor recording, standardized by channel.

A CSV of many rows is cut into windows when it is uploaded (service/samples/ingest/csv_windows.py);
tensors are already windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from service.preprocess.augmentation.series import SeriesAugmentation
from service.preprocess.checks import WrongDescription, refuse_unknown
from service.preprocess.standardize import FIELDS as STANDARDIZE_FIELDS
from service.preprocess.standardize import Standardize
from storage.records.signatures import TensorSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHOICES = {"layout": ("time_first", "channels_first"), "label": ("majority", "last")}
"""The choices; the first is the default."""
FIELDS = (*STANDARDIZE_FIELDS, *CHOICES, "length", "stride")


@dataclass(frozen=True)
class Windows(Standardize):
    """layout: of the input. length, stride: in rows. label: of a window's rows, which counts.

    mean, std: one value per channel.
    """

    kind: ClassVar[str] = "windows"

    layout: str = "time_first"
    length: int = 0
    channels: int = 0
    stride: int = 0
    label: str = "majority"

    @classmethod
    def parse(cls, given: Mapping[str, Any], spec: TensorSpec) -> Windows:
        """Raises WrongDescription."""
        refuse_unknown(given, FIELDS)
        fields = {name: values[0] for name, values in CHOICES.items()}
        fields |= {k: v for k, v in given.items() if v is not None}
        for name, allowed in CHOICES.items():
            if fields[name] not in allowed:
                raise WrongDescription(f"/{name}", f"{name} is one of {', '.join(allowed)}")
        length, channels = _length_and_channels(spec, fields["layout"])
        if fields.get("length", length) != length:
            detail = f"the input {spec.name!r} has shape {list(spec.shape)}: length is {length}"
            raise WrongDescription("/length", detail)
        stride = fields.get("stride", length)
        if type(stride) is not int or not 1 <= stride <= length:
            raise WrongDescription("/stride", f"stride is an integer from 1 to length, {length}")
        own = {name: value for name, value in given.items() if name in STANDARDIZE_FIELDS}
        rows = TensorSpec(spec.name, spec.dtype, (length, channels))
        plain = Standardize.parse({**own, "augment": None}, rows)
        return cls(
            plain.input,
            plain.mean,
            plain.std,
            plain.learn_from,
            _augmentation(given, spec, time_axis=0 if fields["layout"] == "time_first" else 1),
            layout=fields["layout"],
            length=length,
            channels=channels,
            stride=stride,
            label=fields["label"],
        )

    def describe(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in (*CHOICES, "length", "stride")}
        return {**super().describe(), **own}

    def apply(self, rows: NDArray[Any]) -> NDArray[Any]:
        made = super().apply(self.by_time(rows))
        return self.laid(made).reshape(rows.shape)

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
    given: Mapping[str, Any], spec: TensorSpec, *, time_axis: int
) -> SeriesAugmentation | None:
    augment = SeriesAugmentation.parse(given.get("augment"))
    if augment is None:
        return None
    augment = replace(augment, time_axis=time_axis if len(spec.shape) > 1 else 0)
    augment.check_shape(spec)
    return augment
