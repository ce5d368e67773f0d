"""clients/js, by its own tests in Node.js against a real daemon."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from completions import add_decoder
from decoders import byte_tokenizer, decoder
from pictures import PREPROCESS, image_model, photo
from programs import printed
from support import DEADLINE_S, Served

from cli.demo import digits

CLIENT = Path(__file__).parents[2] / "clients" / "js"


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_its_own_tests_pass(served: Served, bell: str) -> None:
    add_decoder(served, "spoken", decoder(300), byte_tokenizer(["see you soon"], size=300))
    served.register("seen", image_model(), preprocess=PREPROCESS, classes=["dark", "bright"])
    given = {"HONED_URL": served.url, "HONED_TOKEN": served.token}
    home = {"HOME": str(served.data_dir.parent), "HONED_DATA_DIR": f"~/{served.data_dir.name}"}
    done = subprocess.run(
        ["node", "--test", "test/"],
        env={**os.environ, **given, **home},
        cwd=CLIENT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 17" in done.stdout


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_the_examples_of_its_readme_run(served: Served, tmp_path: Path) -> None:
    """All but the last, which needs a runtime of ONNX."""
    served.register("pets", image_model(), preprocess=PREPROCESS, classes=["cat", "dog"])
    (tmp_path / "photo.jpg").write_bytes(photo(100, 1, kind="JPEG"))
    served.register("digits", (digits.folder() / "base.onnx").read_bytes())
    images, labels = (array[:40] for array in digits.kept_back())
    served.upload("digits", image=images, label=labels)
    add_decoder(served, "notes", decoder(300), byte_tokenizer(["see you soon"], size=300))
    blocks = re.findall(r"```js\n(.*?)```", (CLIENT / "README.md").read_text("utf-8"), re.S)
    assert "watch()" in blocks.pop()
    command = (
        "node",
        "--input-type=module",
        "--eval",
        "\n".join(blocks).replace("photo.jpg", str(tmp_path / "photo.jpg")),
    )
    told = printed(*command, cwd=CLIENT, HONED_URL=served.url, HONED_TOKEN=served.token)
    assert served.http.delete("/v1/policy").is_success
    assert re.search(r"^succeeded \d$", told, re.M), told


def test_types_are_those_of_the_api(served: Served) -> None:
    code = "import json, sys, js_types as t; json.dump(t.pages(json.load(sys.stdin)), sys.stdout)"
    schemas = served.tokenless.get("/openapi.json").json()["components"]["schemas"]
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(schemas),
        env={**os.environ, "PYTHONPATH": str(CLIENT)},
        capture_output=True,
        text=True,
        check=True,
    )
    for path, types in json.loads(done.stdout).items():
        assert types == (CLIENT.parents[1] / path).read_text("utf-8"), (
            f"{path} is old: python clients/js/js_types.py"
        )
