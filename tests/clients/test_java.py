"""clients/java, compiled and run against a real daemon."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from completions import add_decoder
from decoders import byte_tokenizer, decoder
from pictures import PREPROCESS, image_model, photo
from programs import printed
from support import Served

from cli.demo import digits

CLIENT = Path(__file__).parents[2] / "clients" / "java"
GSON = Path(os.environ.get("GSON_JAR", "/usr/share/java/gson.jar"))


@pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK is installed")
@pytest.mark.skipif(not GSON.exists(), reason="no gson.jar: apt install libgoogle-gson-java")
@pytest.mark.usefixtures("bell")
def test_its_own_test_passes(served: Served, tmp_path: Path) -> None:
    shown = (CLIENT / "README.md").read_text("utf-8").split("```java\n")[1].split("```")[0]
    use, _, calls = shown.partition("\n\n")
    tour = tmp_path / "Tour.java"
    tour.write_text(
        f"import java.util.Map;\n{use}\npublic class Tour {{\n"
        f"public static void main(String[] given) throws Exception {{\n{calls}}}\n}}\n"
    )
    sources = [*CLIENT.glob("src/**/*.java"), *CLIENT.glob("test/*.java"), tour]
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
    served.register("seen", image_model(), preprocess=PREPROCESS, classes=["dark", "bright"])
    (tmp_path / "photo.jpg").write_bytes(photo(100, 1, kind="JPEG"))
    served.register("digits", (digits.folder() / "base.onnx").read_bytes())
    served.upload("digits", **dict(zip(("image", "label"), digits.kept_back(), strict=True)))

    def run(*arguments: str) -> str:
        environment = {"HONED_URL": served.url, "HONED_TOKEN": served.token}
        return printed("java", "-cp", f"{GSON}:{built}", *arguments, **environment)

    assert run("ClientTest", str(tmp_path), str(tmp_path / "photo.jpg")) == "passed\n"
    assert "succeeded 2" in run("Tour")
