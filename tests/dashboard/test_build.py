"""What is committed in api/static is what dashboard/ builds, and both keep to the house."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "dashboard"
BUILT = ROOT / "api" / "static"
FILES = {"index.html", "dashboard.js", "dashboard.css"}
NPM = shutil.which("npm")
INSTALL_S = 120

Npm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def npm(tmp_path_factory: pytest.TempPathFactory) -> Npm:
    """Run npm in a copy of dashboard/ in which the pinned tools are installed."""
    if NPM is None:
        pytest.skip("there is no npm on this machine")
    copy = tmp_path_factory.mktemp("dashboard") / "dashboard"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("node_modules"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [NPM, *arguments],
            cwd=copy,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )

    try:
        installed = run("ci")
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install within {INSTALL_S} s")
    if installed.returncode:
        pytest.skip(f"npm cannot install: {installed.stderr.strip()[-300:]}")
    return run


def test_what_is_committed_is_what_the_sources_build(npm: Npm, tmp_path: Path) -> None:
    built = npm("run", "build", "--", str(tmp_path))

    assert built.returncode == 0, built.stdout + built.stderr
    assert {path.name for path in tmp_path.iterdir()} == FILES
    for name in FILES:
        same = (tmp_path / name).read_bytes() == (BUILT / name).read_bytes()
        assert same, f"api/static/{name} is not what dashboard/ builds: run `make dashboard`"


def test_the_parts_that_compute_pass_their_own_tests(npm: Npm) -> None:
    result = npm("test")

    assert result.returncode == 0, result.stdout + result.stderr


def test_only_what_is_built_is_committed() -> None:
    assert {path.name for path in BUILT.iterdir()} == FILES


def test_the_tools_are_pinned_by_hash_and_no_registry_is_named() -> None:
    tools = json.loads((SOURCES / "package.json").read_text("utf-8"))["devDependencies"]
    packages = json.loads((SOURCES / "package-lock.json").read_text("utf-8"))["packages"]

    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in tools.values())
    for path, package in packages.items():
        assert "resolved" not in package, path
        assert not path or package["integrity"].startswith("sha512-"), path


def test_the_page_names_no_other_host() -> None:
    for name in FILES:
        text = (BUILT / name).read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"""https?:|["'(]//""", text), name


def test_nothing_becomes_markup_and_nothing_is_inline() -> None:
    page = (BUILT / "index.html").read_text("utf-8")
    assert not re.search(r"<style|<script(?![^>]*src=)|\son\w+=|\sstyle=", page)
    for path in SOURCES.glob("src/**/*.ts"):
        text = path.read_text("utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text), (
            path
        )


def test_sources_are_small_modules() -> None:
    for path in SOURCES.glob("src/**/*.ts"):
        assert len(path.read_text("utf-8").splitlines()) <= 250, path


def test_every_condition_of_the_policy_has_words() -> None:
    text = (ROOT / "docs" / "policy.md").read_text("utf-8")
    table = text.partition("## Conditions")[2].partition("\n##")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    conditions = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    words = (SOURCES / "src" / "words.ts").read_text("utf-8")

    assert "power" in conditions
    assert not {name for name in conditions if f"\n  {name}: " not in words}
