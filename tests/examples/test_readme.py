from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo
from support import DEADLINE_S

from cli.demo.daemon import DaemonProcess, running
from service.settings import Settings

STEP = re.compile(r"<!-- run -->\n```sh\n(.*?)```\n(?:\n```(?:json)?\n(.*?)```\n)?", re.DOTALL)
CUT = "--- next step ---"
ROW = re.compile(r"^\| `(HONED_\w+)` \| (.*?) \| (.*) \|$", re.MULTILINE)
DERIVED = {
    "socket": "`api.sock` in the data folder",
    "socket_users": "none",
    "data_dir": "the platform's folder for user data",
    "prediction_threads": "half of the processors",
    "training_memory_bytes": "half of the memory",
}


@pytest.fixture
def readme(root: Path) -> str:
    return (root / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    folder = tmp_path / "daemon"
    folder.mkdir()
    with running(folder) as one:
        yield one


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """A folder that looks like a checkout, and may be written into."""
    folder = tmp_path / "checkout"
    shutil.copytree(root / "examples", folder / "examples")
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.mark.skipif(shutil.which("curl") is None, reason="the tour needs curl")
@pytest.mark.skipif(os.name != "posix", reason="the tour needs a POSIX shell")
def test_the_tour_answers_as_the_readme_shows(
    readme: str, daemon: DaemonProcess, checkout: Path
) -> None:
    commands, shown = zip(*STEP.findall(readme), strict=True)
    assert len(commands) == 8
    done = subprocess.run(
        ["sh", "-e", "-c", f"\necho\necho {CUT}\n".join(commands)],
        cwd=checkout,
        env={
            **os.environ,
            "HONED_URL": daemon.client.url,
            "HONED_TOKEN": daemon.token_file.read_text(encoding="ascii").strip(),
        },
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answers = done.stdout.split(CUT)
    for answer, text in zip(answers, shown, strict=True):
        assert re.fullmatch(_shape(text), answer.strip(), re.DOTALL), answer
    before, after = (float(share) for share in re.findall(r"onnx: (\d+\.\d)% read", answers[-1]))
    assert after > 90 > before


def _shape(text: str) -> str:
    """A pattern of the answers that the page shows: numbers and digests differ, … is left out."""
    without_digests = re.sub(r"\b[0-9a-f]{64}\b", "…", text.strip())
    parts = re.split(r"(\d+(?:\.\d+)?|…)", without_digests)
    return "".join(
        re.escape(part) if at % 2 == 0 else ".*" if part == "…" else r"\d+(\.\d+)?"
        for at, part in enumerate(parts)
    )


def _shown_default(name: str, field: FieldInfo) -> str:
    if field.default_factory is not None or name in DERIVED:
        return DERIVED[name]
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return "none" if field.default in {(), None} else f"`{field.default}`"


def test_every_setting_is_in_the_table_as_it_is(root: Path) -> None:
    page = (root / "docs/settings.md").read_text(encoding="utf-8")
    documented = {name: (default, text) for name, default, text in ROW.findall(page)}
    assert documented == {
        f"HONED_{name.upper()}": (_shown_default(name, field), field.description)
        for name, field in Settings.model_fields.items()
    }


def test_every_link_to_a_page_or_a_part_of_it_leads_there(root: Path) -> None:
    broken = []
    for page in (*root.glob("*.md"), *root.glob("docs/*.md")):
        for link in re.findall(r"\]\((?!http|mailto)([^)\s]+)", page.read_text("utf-8")):
            path, _, part = link.partition("#")
            target = page if path == "" else (page.parent / path)
            if not target.exists() or (part and part not in _parts(target)):
                broken.append(f"{page.relative_to(root)}: {link}")
    assert broken == []


def _parts(page: Path) -> set[str]:
    """What follows # in links to its headings, as GitHub makes it."""
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
