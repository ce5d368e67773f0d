"""Every operation of the API is used by the console, or docs/dashboard.md says why not."""

from __future__ import annotations

import re
from pathlib import Path

from support import Served

ROOT = Path(__file__).parents[2]
METHODS = {"post": "POST", "upload": "POST", "put": "PUT", "patch": "PATCH", "remove": "DELETE"}
CALL = re.compile(rf"\.({'|'.join(METHODS)})(?:<[^;]*?>+)?\((?:withQuery\()?")
ASKED = re.compile(r'asked\("([^"]+)", "(\w+)"')
ADDRESS = re.compile(r"modelPath\(|[\"`]/(?:v1/|readyz)")
MODEL_PATH = re.compile(r"modelPath\([\w.]+(?:, )?")
CONSTANT = "const path = "
LISTED = re.compile(r"`([A-Z]+) (/[^`]*)`")


def test_each_operation_is_used_or_its_absence_is_explained(served: Served) -> None:
    sources = [path.read_text("utf-8") for path in (ROOT / "dashboard" / "src").rglob("*.ts")]
    used = {request for source in sources for request in requests(source)}
    described = served.http.get("/openapi.json").json()["paths"]
    operations = {(how.upper(), path) for path, item in described.items() for how in item}
    unused = {
        (how, path)
        for how, path in operations
        if not any(how == other and fits(where, path) for other, where in used)
    }
    assert unused == left_out()


def left_out() -> set[tuple[str, str]]:
    """The operations that the documentation lists."""
    text = (ROOT / "docs" / "dashboard.md").read_text("utf-8")
    section = text.partition("## What it leaves out")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {operation for row in rows for operation in LISTED.findall(row)}


def requests(source: str) -> set[tuple[str, str]]:
    """Method and path of every request, with `*` for each parameter.

    Every address that is not changed counts as read.
    """
    changed = {place(source, call.end()): METHODS[call[1]] for call in CALL.finditer(source)}
    read = {each.start(): "GET" for each in ADDRESS.finditer(source)}
    found = {(how, path_at(source, start)) for start, how in {**read, **changed}.items()}
    found |= {(METHODS[how], path) for path, how in ASKED.findall(source)}
    return {(how, path) for how, path in found if path.startswith("/")}


def place(source: str, start: int) -> int:
    """Where an argument's path is, which may be a constant."""
    if not source.startswith("path", start):
        return start
    return source.rfind(CONSTANT, 0, start) + len(CONSTANT)


def path_at(source: str, start: int) -> str:
    """The path that an expression begins with, without its query."""
    of_model = MODEL_PATH.match(source, start)
    path = "/v1/models/*" if of_model else ""
    start = of_model.end() if of_model else start
    if source[start] in '"`':
        path += literal(source, start)
    return path.partition("?")[0]


def literal(source: str, start: int) -> str:
    """A string of TypeScript, with `*` for each expression in it."""
    quote, text, depth = source[start], "", 0
    for at in range(start + 1, len(source)):
        if depth == 0 and source[at] == quote:
            break
        if source.startswith("${", at):
            text += "*" if depth == 0 else ""
            depth += 1
        elif depth == 0:
            text += source[at]
        elif source[at] == "}":
            depth -= 1
    return text


def fits(used: str, path: str) -> bool:
    pattern = re.escape(used).replace(r"\*", "[^/]+")
    return re.fullmatch(pattern, re.sub(r"\{[^}]*\}", "x", path)) is not None
