"""clients/java, compiled and run against a real daemon."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from completions import add_decoder
from decoders import byte_tokenizer, decoder
from programs import printed
from support import Served

CLIENT = Path(__file__).parents[2] / "clients" / "java"
GSON = Path(os.environ.get("GSON_JAR", "/usr/share/java/gson.jar"))


@pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK is installed")
@pytest.mark.skipif(not GSON.exists(), reason="no gson.jar: apt install libgoogle-gson-java")
@pytest.mark.usefixtures("bell")
def test_its_own_test_passes(served: Served, tmp_path: Path) -> None:
    sources = [*CLIENT.glob("src/**/*.java"), *CLIENT.glob("test/*.java")]
    built = tmp_path / "built"
    printed(
        "javac",
        "-Xlint:all,-serial",
        "-Werror",
        "-cp",
        str(GSON),
        "-d",
        str(built),
        *map(str, sources),
    )

    add_decoder(served, "notes", decoder(300), byte_tokenizer(["see you soon"], size=300))
    told = printed(
        *("java", "-cp", f"{GSON}:{built}", "ClientTest", str(tmp_path)),
        HONED_URL=served.url,
        HONED_TOKEN=served.token,
    )
    assert told == "passed\n"
