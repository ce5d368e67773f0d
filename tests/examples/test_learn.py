"""The programs of examples/clients in compiled languages upload, train, fetch and predict."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from programs import finished, printed
from support import Served, blobs, mlp

CLIENTS = Path(__file__).parents[2] / "examples" / "clients"
ASSEMBLIES = ["-r:System.Net.Http", "-r:System.Runtime.Serialization"]


def build_c(folder: Path) -> list[str]:
    if shutil.which("cc") is None or not Path("/usr/include/cjson").exists():
        pytest.skip(
            "no compiler with libcurl and cJSON: apt install libcurl4-openssl-dev libcjson-dev"
        )
    flags = ["-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror"]
    program = folder / "learn"
    printed("cc", *flags, "-o", str(program), str(CLIENTS / "learn.c"), "-lcurl", "-lcjson")
    return [str(program)]


def build_cs(folder: Path) -> list[str]:
    if shutil.which("mcs") is None or shutil.which("mono") is None:
        pytest.skip(
            "Mono is not installed: apt install mono-runtime mono-mcs"
            " libmono-system-net-http4.0-cil libmono-system-runtime-serialization4.0-cil"
        )
    program = folder / "Learn.exe"
    printed(
        "mcs",
        "-warnaserror",
        f"-out:{program}",
        *ASSEMBLIES,
        str(CLIENTS / "Learn.cs"),
    )
    return ["mono", str(program)]


@pytest.fixture(scope="module", autouse=True)
def bell(served: Served) -> None:
    served.register("bell", mlp(8, 6, 3), gate={"mode": "always"})
    served.upload("bell", split="validation", **blobs(64, 8, 3, seed=1))


@pytest.mark.parametrize("build", [build_c, build_cs], ids=["c", "c#"])
def test_it_uploads_trains_fetches_on_change_and_predicts(
    served: Served, tmp_path: Path, build: object, request: pytest.FixtureRequest
) -> None:
    assert callable(build)
    program = build(tmp_path)
    (tmp_path / "inputs.json").write_text(json.dumps({"inputs": {"x": [0.5] * 8}}))
    samples = blobs(48, 8, 3, seed=len(request.node.name))
    lines = [[*row, label] for row, label in zip(samples["x"], samples["label"], strict=True)]
    table = "\n".join(
        [
            ",".join([*(f"x{i}" for i in range(8)), "label"]),
            *(",".join(map(str, line)) for line in lines),
        ]
    )
    (tmp_path / "samples.csv").write_text(table + "\n")
    given = [str(tmp_path / name) for name in ("samples.csv", "inputs.json", "model.onnx")]
    environment = {"HONED_URL": served.url, "HONED_TOKEN": served.token}

    uploaded, trained, fetched, predicted = printed(
        *program, "bell", *given, **environment
    ).splitlines()

    latest = served.http.get("/v1/models/bell/latest/model.onnx")
    version = served.http.get("/v1/models/bell/latest").json()["version"]
    assert uploaded == "accepted 48, duplicates 0"
    assert trained == f"trained version {version}"
    assert fetched == f"fetched {latest.headers['etag']}"
    assert json.loads(predicted)["predictions"][0]["label"] in (0, 1, 2)
    assert (tmp_path / "model.onnx").read_bytes() == latest.content

    refused = finished(*program, "nobody", *given, **environment)
    assert refused.returncode == 1
    assert "not_found" in refused.stderr


def test_a_file_that_is_not_there_is_named(served: Served, tmp_path: Path) -> None:
    (program,) = build_c(tmp_path)
    given = [str(tmp_path / name) for name in ("none.csv", "none.json", "model.onnx")]
    done = finished(program, "bell", *given, HONED_URL=served.url, HONED_TOKEN=served.token)
    assert (done.returncode, done.stderr) == (1, f"{given[0]}: cannot be read\n")
