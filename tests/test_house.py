"""The shape of the house: no import circles, bounded sizes, every folder documented."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
from sources import ROOT, functions, import_statements, imported, members, sources, statements, tree

ROOMS = ("storage", "service", "api", "cli")
FOLDERS = (*ROOMS, "tests", "bench", "examples", "clients/python", "clients/flower")
MODULES = 20
FILE_LINES = 320
LEAST_FILE_LINES = 40
SHORT = {
    "cli/__main__.py": "an entry point",
    "service/preprocess/thumbnail.py": "an entry point: a process of its own",
    "service/late.py": "the start asks for it before any room is loaded",
    "service/preprocess/kinds.py": "loaded only for models that have one",
    "service/samples/disk_reserve.py": "a rule that two routes ask",
    "service/device/linux/network.py": "no signal: who is about to use the network asks",
    "service/device/windows/last_input.py": "the command watch-input loads it without the daemon",
    "service/training/engines/packages.py": "asked before the runtime may be imported",
    "service/training/export/form.py": "what two modules that make variants share",
    "storage/arrays.py": "what stands in for a type of numpy's",
    "storage/disk/digest.py": "four rooms hash files",
    "tests/helpers/models/pictures.py": "a kind of model",
    "tests/helpers/policies.py": "a policy that one room's tests share",
    "tests/helpers/training/training_api.py": "asked before the engine is imported",
}
"""Modules that stand alone though they are short, and why."""
DATACLASSES = {
    "service/policy/policy.py": "pydantic validates it",
    "service/policy/validation.py": "its fields",
    "service/preprocess/audio.py": "its base is an abstract class",
    "service/preprocess/image.py": "its base is an abstract class",
    "service/preprocess/standardize.py": "its base is an abstract class",
    "service/preprocess/text.py": "its base is an abstract class",
    "service/preprocess/windows.py": "its base is an abstract class",
    "service/training/heads/kinds.py": "pydantic validates it",
}
"""Modules that have dataclasses, not structs of msgspec, and why."""
WRITES_JSON = {("json", "dump"), ("json", "dumps"), ("msgspec.json", "encode")}
FUNCTION_LINES = 45
MEDIAN_FUNCTION_LINES = 10


def modules() -> dict[str, Path]:
    """Every module of the product, by its dotted name."""
    return {_name(path): path for room in ROOMS for path in sources(room)}


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def modules_imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of ours that a file imports: at its top, late, or for types only."""
    names: set[str] = set()
    for statement in import_statements(path):
        names |= (members(statement) & set(known)) or imported(statement)
    return names & set(known) - {_name(path)}


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = modules()
    graph = {name: modules_imported(path, known) for name, path in known.items()}
    while leaves := {name for name, targets in graph.items() if not targets & set(graph)}:
        graph = {name: targets for name, targets in graph.items() if name not in leaves}
    importers = {name for targets in graph.values() for name in targets}
    assert not {name: sorted(graph[name] & set(graph)) for name in graph if name in importers}


def test_a_class_name_stands_for_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for name, path in modules().items():
        for node in statements(path):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name)
    assert not {name: where for name, where in places.items() if len(where) > 1}


def test_json_is_written_by_one_function_which_takes_only_finite_numbers() -> None:
    """`json.dumps` writes NaN and Infinity, which no other program reads."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in modules().values()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and (ast.unparse(node.value), node.attr) in WRITES_JSON
    }
    assert found == {"storage/database/codec.py"}


def test_values_are_structs() -> None:
    """A dataclass takes forty times as long to make, at every start of the daemon or of a job."""
    found = {
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in sources(room)
        if "dataclasses" in set().union(*map(imported, import_statements(path)))
    }
    assert found == set(DATACLASSES)


@pytest.mark.parametrize("room", FOLDERS)
def test_no_folder_holds_more_modules_than_a_reader_surveys(room: str) -> None:
    counts = Counter(path.parent for path in sources(room) if path.name != "__init__.py")
    assert not {
        str(folder.relative_to(ROOT)): count for folder, count in counts.items() if count > MODULES
    }


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_file_is_longer_than_one_idea(folder: str) -> None:
    lines = {str(path): path.read_text("utf-8").count("\n") for path in sources(folder)}
    assert not {name: count for name, count in lines.items() if count > FILE_LINES}


def test_no_module_is_so_short_that_its_idea_lies_elsewhere() -> None:
    short = {
        path.relative_to(ROOT).as_posix()
        for path in (*modules().values(), *sources("tests/helpers"))
        if path.name != "__init__.py" and path.read_text("utf-8").count("\n") < LEAST_FILE_LINES
    }
    assert not short - set(SHORT), "merge it with a neighbour, or say in SHORT why it stands alone"
    assert not set(SHORT) - short, "no longer short, or gone: take it out of SHORT"


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_function_is_longer_than_a_screen(folder: str) -> None:
    for path in sources(folder):
        long = {name: lines for name, lines in functions(path).items() if lines > FUNCTION_LINES}
        assert not long


@pytest.mark.parametrize("folder", FOLDERS)
def test_most_functions_are_short(folder: str) -> None:
    lines = [count for path in sources(folder) for count in functions(path).values()]
    assert median(lines) <= MEDIAN_FUNCTION_LINES


def rooms() -> dict[str, str]:
    """Each folder of the product and the sentence that says what lives there."""
    found = {}
    for path in modules().values():
        folder = path.parent.relative_to(ROOT).as_posix()
        if path.name == "__init__.py":
            found[f"{folder}/"] = (ast.get_docstring(tree(path)) or "").split("\n")[0]
    return found


def test_every_folder_stands_in_the_documentation_with_its_sentence() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    documented = dict(re.findall(r"^\| `([a-z_/]+/)` \| (.+?) \|$", page, re.M))
    assert documented == rooms(), "docs/architecture.md: " + "\n".join(
        f"| `{folder}` | {sentence} |" for folder, sentence in rooms().items()
    )


@pytest.mark.parametrize("room", ROOMS)
def test_every_folder_says_what_lives_there(room: str) -> None:
    for folder, sentence in rooms().items():
        assert sentence or not folder.startswith(room), folder


def names_used(node: ast.AST) -> Iterator[str]:
    """What a function calls and takes, by its last name; `assert` for that statement."""
    for each in ast.walk(node):
        if isinstance(each, ast.Assert):
            yield "assert"
        elif isinstance(each, ast.arg):
            yield each.arg
        elif isinstance(each, ast.Call):
            name = ast.unparse(each.func).rpartition(".")[2]
            yield "assert" if name.startswith("assert_") else name


def test_every_test_asserts() -> None:
    """By itself, or by what it calls and takes, as far as names tell."""
    functions = [
        node
        for path in sources("tests")
        for node in statements(path)
        if isinstance(node, ast.FunctionDef)
    ]
    used = {node: frozenset(names_used(node)) for node in functions}
    asserting = {"assert", "raises", "warns", "raise_for_status", "check_model"}
    while more := {node.name for node in functions if used[node] & asserting} - asserting:
        asserting |= more
    tests = {node.name for node in functions if node.name.startswith("test_")}
    assert len(tests) > 1000
    silent = tests - asserting
    assert not silent
