"""What is committed in api/static is what dashboard/ builds, and both keep to the house."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
from pathlib import Path

from npm import Npm

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "dashboard"
BUILT = ROOT / "api" / "static"
FILES = {"index.html", "dashboard.js", "dashboard.css"}
MOST_BYTES = 150_000


def test_what_is_committed_is_what_the_sources_build(npm: Npm, tmp_path: Path) -> None:
    built = npm("run", "build", "--", str(tmp_path))

    assert built.returncode == 0, built.stdout + built.stderr
    assert {path.name for path in tmp_path.iterdir()} == FILES
    for name in FILES:
        same = (tmp_path / name).read_bytes() == (BUILT / name).read_bytes()
        assert same, f"api/static/{name} is not what dashboard/ builds: run `make dashboard`"


def test_the_console_knows_the_tasks_that_the_daemon_has() -> None:
    said = importlib.util.spec_from_file_location("tasks", SOURCES / "tasks.py")
    assert said is not None
    assert said.loader is not None
    module = importlib.util.module_from_spec(said)
    said.loader.exec_module(module)
    assert module.PAGE.read_text("utf-8") == module.render(), "run `python dashboard/tasks.py`"


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


def test_all_files_together_are_small() -> None:
    assert sum(len(gzip.compress(path.read_bytes())) for path in BUILT.iterdir()) <= MOST_BYTES


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


def test_nothing_moves_but_by_its_opacity() -> None:
    """What moves otherwise is laid out and painted at each frame, while a job trains beside it."""
    text = (BUILT / "dashboard.css").read_text("utf-8")
    frames = re.findall(r"@keyframes \w+ \{\n(.*?)\n\}", text, re.DOTALL)

    assert set(re.findall(r"transition: (\w+)", text)) <= {"none", "opacity"}
    assert [re.findall(r"([\w-]+):", frame) for frame in frames] == [["opacity"]]


def test_sources_are_small_modules_in_small_folders() -> None:
    modules = list(SOURCES.glob("src/**/*.ts"))

    for path in modules:
        if path.name == "openapi.d.ts":  # generated
            continue
        assert len(path.read_text("utf-8").splitlines()) <= 250, path
    for folder in {path.parent for path in modules}:
        assert len(list(folder.glob("*.ts"))) <= 20, folder


def test_rooms_import_only_what_lies_below_them() -> None:
    below = {"daemon": set(), "page": {"daemon"}, "app": {"daemon", "page"}}
    for room, allowed in below.items():
        for path in SOURCES.glob(f"src/{room}/*.ts"):
            imported = set(re.findall(r'from "\.\./(\w+)/', path.read_text("utf-8")))
            assert imported <= allowed, path


def test_every_condition_of_the_policy_has_words() -> None:
    text = (ROOT / "docs" / "policy.md").read_text("utf-8")
    table = text.partition("## Conditions")[2].partition("\n##")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    conditions = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    words = (SOURCES / "src" / "page" / "words.ts").read_text("utf-8")

    assert "power" in conditions
    assert not {name for name in conditions if f"\n  {name}: " not in words}
