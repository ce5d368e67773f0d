"""Every client of examples/clients fetches a model when it changes, and predicts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Served, blobs, mlp, wait_until

CLIENTS = Path(__file__).parents[2] / "examples" / "clients"
COMMANDS = {
    "curl": ["sh", "fetch_and_predict.sh"],
    "java": ["java", "FetchAndPredict.java"],
}


@pytest.fixture(scope="module", autouse=True)
def bell(served: Served) -> None:
    served.register("bell", mlp(8, 6, 3), classes=["ding", "dong", "silence"])
    served.upload("bell", split="train", **blobs(64, 8, 3))
    served.upload("bell", split="validation", **blobs(64, 8, 3, seed=1))


@pytest.fixture(params=COMMANDS)
def client(
    served: Served, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[subprocess.Popen[str]]:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    (tmp_path / "inputs.json").write_text(json.dumps({"inputs": {"x": [0.5] * 8}}))
    program, file = COMMANDS[request.param]
    arguments = ["bell", str(tmp_path / "model.onnx"), str(tmp_path / "inputs.json"), "2"]
    with subprocess.Popen(
        [program, str(CLIENTS / file), *arguments],
        env={**os.environ, "HONED_URL": served.url, "HONED_TOKEN": served.token},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def test_a_client_fetches_on_change_and_predicts(
    served: Served, client: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert client.stdout is not None
    url = "/v1/models/bell/latest/model.onnx"
    first = served.http.get(url)
    file = tmp_path / "model.onnx"

    assert client.stdout.readline() == f"fetched {first.headers['etag']}\n"
    answer = json.loads(client.stdout.readline())
    assert answer["predictions"][0]["label"] in answer["classes"]
    assert file.read_bytes() == first.content

    version = promote_another(served)

    second = served.http.get(url)
    assert second.headers["etag"] != first.headers["etag"]
    assert client.stdout.readline() == f"fetched {second.headers['etag']}\n"
    assert json.loads(client.stdout.readline())["version"] in (answer["version"], version)
    assert client.wait(30) == 0
    assert file.read_bytes() == second.content


def promote_another(served: Served) -> int:
    """Have `latest` name a version that was just trained."""
    number: int = served.train("bell", epochs=1, ignore_policy=True)["version"]
    latest = served.http.get("/v1/models/bell/latest").json()["version"]
    if latest != number:
        chosen = {"version": number}
        answer = served.http.put("/v1/models/bell/aliases/latest", json=chosen)
        assert answer.status_code == 200, answer.text
    wait_until(
        lambda: served.http.get("/v1/models/bell/latest").json()["version"] == number, "latest"
    )
    return number
