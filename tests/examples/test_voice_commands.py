from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import onnx
from support import Served


def test_an_assistant_learns_commands_from_texts_beside_an_int8_base(
    root: Path, serve: Callable[..., Served], run: Callable[..., str]
) -> None:
    served = serve()
    folder = root / "examples" / "voice_commands"
    told = run("voice_commands/teach.py", served=served)
    before, after = map(int, re.findall(r"(\d+)% (?:before|after)", told))
    assert before <= 30
    assert after >= 75, told
    base = onnx.load(folder / "base.onnx").graph
    packed = {each.name for each in base.initializer if each.data_type == onnx.TensorProto.INT8}
    shown = served.http.get("/v1/models/commands").json()
    adapted = {name.rpartition(".lora_")[0] for name in shown["parameters"]["names"]} - {""}
    assert len(adapted) == 6
    assert adapted <= packed
    version = served.http.get("/v1/models/commands/latest").json()
    assert version["stored_bytes"] < version["size_bytes"] / 4
