"""The modules of a folder as the tests of the house's shape read them; each is parsed once."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields that hold statements, or handlers and cases, which hold them."""


@cache
def sources(folder: str) -> tuple[Path, ...]:
    """Every Python file below a folder of the repository."""
    return tuple(sorted((ROOT / folder).rglob("*.py")))


@cache
def tree(path: Path) -> ast.Module:
    """What a file says.

    It stays to the end: looking for garbage in the trees took thrice as long as reading them.
    """
    text = path.read_text("utf-8")
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.freeze()
        gc.enable()


@cache
def statements(path: Path) -> tuple[ast.stmt, ...]:
    """All statements of a file, at whatever depth. Expressions, most of a tree, have none."""
    return tuple(_within(tree(path)))


def _within(node: ast.AST) -> Iterator[ast.stmt]:
    for name in BLOCKS:
        for each in getattr(node, name, ()):
            if isinstance(each, ast.stmt):
                yield each
            yield from _within(each)


@cache
def import_statements(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Where a file imports: at its top, late, or for types only."""
    found = statements(path)
    return tuple(node for node in found if isinstance(node, ast.Import | ast.ImportFrom))


def imports(path: Path) -> set[str]:
    """Every module that a file imports, lazily or not."""
    return set().union(*map(imported, import_statements(path)))


def imported(statement: ast.Import | ast.ImportFrom) -> set[str]:
    """The modules that a statement names."""
    if isinstance(statement, ast.Import):
        return {alias.name for alias in statement.names}
    return {statement.module} if statement.module else set()


def members(statement: ast.Import | ast.ImportFrom) -> set[str]:
    """The names that a statement takes out of a module, which may be modules too."""
    if isinstance(statement, ast.Import):
        return set()
    return {f"{statement.module}.{alias.name}" for alias in statement.names}


@cache
def functions(path: Path) -> dict[str, int]:
    """The functions of a file and how many lines each has."""
    return {
        f"{path.relative_to(ROOT).as_posix()}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for node in statements(path)
        if isinstance(node, FUNCTIONS)
    }
