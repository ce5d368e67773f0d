"""The zip for a Windows without Python: unpacked, run, installed as a service, and removed."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import httpx
import pytest
from support import wait_until

ZIP = Path(os.environ.get("HONE_WINDOWS_ZIP", ""))
INSTALL_S = 1200
"""Of compiling three thousand modules under Wine, on a machine that others use."""
pytestmark = pytest.mark.xdist_group("zip")
URL = "http://127.0.0.1:8471"
IMPORT_ALL = """
import ast, importlib, pkgutil
modules, imported, missing = [], set(), set()
for room in ("api", "cli", "service", "storage"):
    path = importlib.import_module(room).__path__
    modules += [each.name for each in pkgutil.walk_packages(path, room + ".")]
for name in modules:
    if not name.endswith("__main__"):
        source = importlib.import_module(name).__loader__.get_source(name)
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom):
                imported.add(node.module)
            elif isinstance(node, ast.Import):
                imported |= {each.name for each in node.names}
for name in imported:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing.add(error.name)
print(*sorted(missing))
"""
OF_LINUX = {"fcntl", "grp", "jeepney", "pwd", "pysqlite3", "resource", "termios"}


@pytest.fixture(scope="module")
def unpacked(windows):
    """Its folder, as a person has it after the download."""
    downloads = windows.drive / "users/root/My Downloads"
    shutil.rmtree(downloads, ignore_errors=True)
    with zipfile.ZipFile(ZIP) as archive:
        archive.extractall(downloads)
    yield downloads / ZIP.stem
    shutil.rmtree(downloads)


def command(windows, folder, name, *arguments, **options):
    return windows.run("cmd", "/c", windows.path(folder / name), *arguments, **options)


def test_it_runs_where_it_was_unpacked(windows, unpacked):
    version = f"honed, version {ZIP.name.split('-')[1]}\n"
    assert command(windows, unpacked, "honed.cmd", "--version") == version
    assert "96.2%\n" in command(windows, unpacked, "honed.cmd", "demo")


def test_it_has_what_each_module_of_the_program_imports(windows, unpacked):
    file = windows.drive / "import_all.py"
    file.write_text(IMPORT_ALL)
    python = windows.path(unpacked / "python/python.exe")
    assert set(windows.run(python, "-I", windows.path(file)).split()) == OF_LINUX


def test_it_installs_and_replaces_and_removes_the_service(windows, unpacked):
    installed = windows.drive / "Program Files/Hone"
    shutil.rmtree(installed, ignore_errors=True)
    for _ in range(2):
        assert "started honed" in command(windows, unpacked, "install.cmd", timeout_s=INSTALL_S)
        wait_until(answers, "the service to answer")
        assert "running" in command(windows, installed, "honed.cmd", "service", "status")
    assert "removed honed" in command(windows, unpacked, "uninstall.cmd")
    assert not (installed / "python").exists()
    assert (windows.drive / "ProgramData/Hone/data/hone.db").exists()


def answers():
    try:
        return httpx.get(f"{URL}/readyz", trust_env=False).is_success
    except httpx.TransportError:
        return False
