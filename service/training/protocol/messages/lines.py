"""Converts messages to lines of JSON and back."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from service.training.protocol.serialization import build, plain, read
from storage.database.codec import dump

if TYPE_CHECKING:  # each is loaded when first received
    from service.training.protocol.messages.unions import Command, Message, Task

TASKS = {
    "prepare": "preparation",
    "diagnose": "diagnosis",
    "train": "training",
    **dict.fromkeys(("evaluate", "compare", "convert", "rank", "drift"), "comparison"),
}
"""Kind of a line → the module of its class, which has the same name."""
COMMANDS = dict.fromkeys(("pause", "cancel", "hold", "continue"), "shared")


def encode(line: Task | Command | Message) -> bytes:
    """One JSON line, ended by a newline. Raises ValueError if a number is not finite."""
    return dump(plain(line), ensure_ascii=True).encode() + b"\n"


def decode_task(line: bytes) -> Task:
    """Raises ValueError if the line is not a task."""
    return cast("Task", _decode(line, TASKS, "a task"))


def decode_command(line: bytes) -> Command:
    """Raises ValueError if the line is not a command."""
    return cast("Command", _decode(line, COMMANDS, "a command"))


def _decode(line: bytes, modules: Mapping[str, str], what: str) -> Any:
    kind, value = read(line, modules, what)
    module = importlib.import_module(f"service.training.protocol.messages.{modules[kind]}")
    return build(getattr(module, kind.capitalize()), value)
