"""docs/tutorial.md: its programs and commands, in their order, and what they are said to print."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from programs import interpreter, printed

from cli.demo.daemon import running

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
FILES = re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)```", PAGE, re.DOTALL)
STEP = re.compile(r"<!-- run -->\n```sh\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.DOTALL)
CUT = "--- next step ---"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the daemon is found by its Unix socket"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the reader's folder holds after the second step; `honed` and `python` are ours."""
    for name, program in FILES:
        (tmp_path / name).write_text(program, "utf-8")
    shutil.copy(ROOT / "examples/motion/motion.onnx", tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, arguments in (("python", ""), ("honed", "-m cli")):
        path = programs / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n', "utf-8")
        path.chmod(0o755)
    return tmp_path


def _run(script: str, folder: Path) -> str:
    return printed(
        *("sh", "-e", "-c", script),
        cwd=folder,
        PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "clients/python")]),
        PATH=os.pathsep.join([str(folder / "bin"), os.environ["PATH"]]),
    )


def test_a_reader_who_does_each_step_sees_what_the_page_shows(folder: Path) -> None:
    steps, shown = zip(*STEP.findall(PAGE), strict=True)
    assert len(steps) == 9
    (folder / "data").mkdir()
    with running(folder / "data"):
        answers = _run(f"\necho\necho {CUT}\n".join(steps), folder).split(CUT)
    for said, answer in zip(shown, answers, strict=True):
        numbers = re.compile(r"\d+(\.\d+)?%")
        assert numbers.sub("0%", said.strip()) in numbers.sub("0%", answer)
    before, after = (float(share) for share in re.findall(r"onnx: (\d+\.\d)%", answers[7]))
    assert before < 50
    assert after > 90


def test_the_maker_writes_the_model_that_the_page_offers(folder: Path) -> None:
    maker = interpreter("torch onnxscript")
    offered = (folder / "motion.onnx").rename(folder / "offered.onnx")
    printed(maker, "-W", "ignore", "author.py", cwd=folder)
    judged = printed(sys.executable, "check.py", offered.name, "motion.onnx", cwd=folder)
    shown, written = (float(share) for share in re.findall(r"(\d+\.\d)% right", judged))
    assert abs(shown - written) < 5
