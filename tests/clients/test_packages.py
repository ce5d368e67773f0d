"""The packages of the clients, as they are published: licence, address, links."""

from __future__ import annotations

import email
import json
import re
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from programs import printed

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "clients"
LICENSE = (ROOT / "LICENSE").read_bytes()
HOMEPAGE = "https://pypi.org/project/honed/"


def relative_links(page: str) -> list[str]:
    """Links of a Markdown page that lead nowhere on the page of a package."""
    return [link for link in re.findall(r"\]\(([^)]+)\)", page) if not re.match("https?://", link)]


@pytest.mark.parametrize("client", ["python", "flower"])
def test_a_package_for_python_stands_alone(client: str, tmp_path: Path) -> None:
    folder = tmp_path / client  # building leaves nothing in the repository
    shutil.copytree(CLIENTS / client, folder, ignore=shutil.ignore_patterns("__pycache__"))
    printed(sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path), cwd=folder)
    (wheel,) = tmp_path.glob("*.whl")
    (archive,) = tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        (about,) = (name for name in names if name.endswith("/METADATA"))
        (license_,) = (name for name in names if name.endswith("/licenses/LICENSE"))
        told = email.message_from_bytes(opened.read(about))
        assert opened.read(license_) == LICENSE
    assert told["Project-URL"] == f"Homepage, {HOMEPAGE}"
    assert (told["License-Expression"], told["Description-Content-Type"]) == (
        "MIT",
        "text/markdown",
    )
    assert "onnx" in told["Keywords"].split(",")
    assert relative_links(told.get_payload()) == []
    with tarfile.open(archive) as opened:
        kept = {Path(name).name for name in opened.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml"} <= kept


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_the_package_for_javascript_stands_alone() -> None:
    folder = CLIENTS / "js"
    (packed,) = json.loads(printed("npm", "pack", "--dry-run", "--json", cwd=folder))
    files = {file["path"] for file in packed["files"]}
    sources = {file.relative_to(folder).as_posix() for file in folder.glob("src/*")}
    assert files == {"LICENSE", "README.md", "package.json", *sources}
    about = json.loads((folder / "package.json").read_text("utf-8"))
    assert (about["license"], about["homepage"]) == ("MIT", HOMEPAGE)
    assert "onnx" in about["keywords"]
    assert (folder / "LICENSE").read_bytes() == LICENSE
    assert relative_links((folder / "README.md").read_text("utf-8")) == []
