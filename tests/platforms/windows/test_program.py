"""The program as the wheel installs it on Windows: commands that need no daemon, and the demo."""

from __future__ import annotations

import re

from wine import PYTHON


def test_it_tells_its_version(windows):
    assert re.fullmatch(r"honed, version [\d.]+\n", windows.honed("--version"))
    platform = windows.run(PYTHON, "-c", "import sys; print(sys.platform, sys.version_info[:2])")
    assert platform == "win32 (3, 11)\n"


def test_the_doctor_finds_nothing_that_fails(windows):
    output = windows.honed("doctor")
    assert re.search(r"^ok +training .*trains, without torch", output, re.M), output
    assert not re.search("^fail", output, re.M), output


def test_the_demo_ends_as_accurate_as_on_linux(windows):
    output = windows.honed("demo")
    assert re.search(r"version 2 .* 96\.2%$", output, re.M), output
