"""The setting of execution providers: names, with options for some."""

from __future__ import annotations

from typing import Any

Provider = tuple[str, dict[str, str]]
"""The name of one of ONNX Runtime's execution providers, and options for it."""
CPU = "CPUExecutionProvider"
SUFFIX = "ExecutionProvider"
FORM = '["OpenVINOExecutionProvider", ["CUDAExecutionProvider", {"device_id": "1"}]]'


def read_providers(value: Any) -> tuple[Provider, ...]:
    """From a list of names, and of pairs of a name and a table of options.

    Raises ValueError that names the entry.
    """
    if not isinstance(value, list | tuple):
        raise ValueError(f"it is a list, such as {FORM}")
    return tuple(_read(entry, f"entry {number}") for number, entry in enumerate(value, 1))


def label(provider: Provider) -> str:
    """For people: the name, and the options if there are any."""
    name, options = provider
    listed = ", ".join(f"{option}={value}" for option, value in options.items())
    return f"{name} ({listed})" if listed else name


def _read(entry: Any, where: str) -> Provider:
    name, options = (entry, {}) if isinstance(entry, str) else _pair(entry, where)
    if not name.endswith(SUFFIX):
        raise ValueError(f'{where}: names end in {SUFFIX}, as in "{name or "CUDA"}{SUFFIX}"')
    if name == CPU and options:
        raise ValueError(f"{where}: {name} takes no options here; give its name alone")
    for option, value in options.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(
                f"{where}: option {option!r} of {name} is {value!r}; give text or a number, as ONNX"
                " Runtime's page on the provider spells it"
            )
    return name, {option: str(value) for option, value in options.items()}


def _pair(entry: Any, where: str) -> tuple[str, dict[str, Any]]:
    is_pair = isinstance(entry, list | tuple) and len(entry) == 2
    if not is_pair or not isinstance(entry[0], str) or not isinstance(entry[1], dict):
        raise ValueError(f"{where} is neither a name nor a name with a table of options: {FORM}")
    return entry[0], entry[1]
