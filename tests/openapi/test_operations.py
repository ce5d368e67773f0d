"""What schemathesis makes of the OpenAPI description is answered as the description says.

HONE_OPENAPI_CASES: how many cases an operation gets, and how many seconds chains of requests are
tried; `make test-openapi` asks for 100, and with tokens of one scope for a tenth. Without it each
gets two, always the same.
HONE_OPENAPI_SEED repeats a run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest
from federated import make_device
from pictures import PREPROCESS, image_model, photo
from recordings import tone, written
from support import HELPERS, Served, blobs, mlp, npz

from service.access.principal import DEVICE_WIDE, Scope

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CASES = int(os.environ.get("HONE_OPENAPI_CASES", "0"))
SEED = int(os.environ.get("HONE_OPENAPI_SEED", random.getrandbits(31) if CASES else 1))
FEW = 2
CONFIG = HERE / "schemathesis.toml"
SAMPLES = blobs(100, 2, 2)

NARROW = [(each, None) for each in Scope] + [
    (each, ["taking"]) for each in Scope if each not in DEVICE_WIDE
]
"""Scopes of tokens for all models, and of those that can be bound to one."""

at_length = pytest.mark.skipif(not CASES, reason="make test-openapi asks")
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("schemathesis") is None, reason="schemathesis needs CPython 3.11"
)


@dataclass
class Asked:
    """What schemathesis asked, and what it said."""

    code: int
    said: str
    answers: dict[str, dict[str, int]]
    never: set[str]
    """The operations that it did not ask."""

    def __str__(self) -> str:
        statuses = sum(map(Counter, self.answers.values()), Counter())
        idle = [name for name, answer in self.answers.items() if not any(map(is_good, answer))]
        return (
            f"{statuses.total()} answers, {dict(sorted(statuses.items()))}; "
            f"{len(self.answers) - len(idle)} operations did their work, not so {idle}"
        )


def is_good(status: str) -> bool:
    return status[0] == "2"


@pytest.fixture
def prepared(serve: Callable[..., Served]) -> Served:
    """A daemon with a model for every kind of request."""
    served = serve(event_heartbeat_s=0.2)
    for name in ("still", "doomed"):
        served.register(name, mlp(2, 4, 2))
    served.register("taking", mlp(2, 4, 2), classes=["cat", "dog"], gate={"mode": "always"})
    served.upload("taking", **SAMPLES).raise_for_status()
    served.train("taking", epochs=1, ignore_policy=True)
    for _ in range(4):
        served.ask_for_job("taking", max_steps=1)
    trigger = {"cron": "0 3 * * *"}
    served.http.post("/v1/models/taking/triggers", json=trigger).raise_for_status()
    for number in range(5):
        wanted = {"name": f"app {number}", "scopes": ["predict"]}
        served.http.post("/v1/tokens", json=wanted).raise_for_status()
    served.register("pictures", image_model(), preprocess=PREPROCESS)
    for at in range(3):
        path, headers = f"/v1/models/pictures/samples?label={at % 2}", {"Content-Type": "image/png"}
        served.http.post(path, content=photo(99, at), headers=headers).raise_for_status()
    device = make_device(served, "federated", samples=60, hidden=4)
    device.allow().raise_for_status()
    device.begin(device.parameters())
    return served


@pytest.fixture
def bodies(prepared: Served, tmp_path: Path) -> Path:
    """A folder of what its models take, each file named by what it is."""
    content = {
        "model.onnx": mlp(2, 4, 2),
        "samples.npz": npz(**SAMPLES),
        "archive.zip": prepared.http.get("/v1/models/taking/samples/archive").content,
        "parameters.safetensors": prepared.http.get("/v1/models/federated/parameters").content,
        **{f"photo.{kind.lower()}": photo(99, 7, kind=kind) for kind in ("PNG", "JPEG", "WEBP")},
        **{f"tone.{kind.lower()}": written(tone(440, 7), kind=kind) for kind in ("WAV", "FLAC")},
    }
    folder = tmp_path / "bodies"
    folder.mkdir()
    for name, body in content.items():
        (folder / name).write_bytes(body)
    return folder


@pytest.fixture
def ask(prepared: Served, bodies: Path, tmp_path: Path) -> Callable[..., Asked]:
    """Have schemathesis ask with a token; scope: its only one."""
    described = prepared.tokenless.get("/openapi.json")
    description, tally = tmp_path / "openapi.json", tmp_path / "answers.json"
    description.write_bytes(described.content)
    paths = described.json()["paths"].items()
    operations = {f"{method.upper()} {path}" for path, methods in paths for method in methods}
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, HERE, HELPERS))),
        "SCHEMATHESIS_HOOKS": "hooks",
        "HONE_OPENAPI_BODIES": str(bodies),
        "HONE_OPENAPI_TALLY": str(tally),
    }

    def run(phases: str, *options: str, token: str = prepared.token, scope: str = "") -> Asked:
        chosen = {
            "--url": prepared.url,
            "--header": f"Authorization: Bearer {token}",
            "--phases": phases,
            "--max-examples": str(CASES or FEW),
            "--seed": str(SEED),
        }
        program = [sys.executable, "-m", "schemathesis.cli", "--config-file", CONFIG, "run"]
        done = subprocess.run(
            [*program, description, "--no-color", *chain.from_iterable(chosen.items()), *options],
            env=environment | {"HONE_OPENAPI_SCOPE": scope},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert tally.exists(), done.stdout + done.stderr
        answers = json.loads(tally.read_text())
        asked = Asked(done.returncode, done.stdout, answers, operations - set(answers))
        sys.stdout.write(f"{scope or 'admin'}, {phases}, seed {SEED}: {asked}\n")
        return asked

    return run


def assert_is_as_described(asked: Asked, served: Served) -> None:
    """No check failed, and the daemon tells of no fault of its own."""
    assert asked.code == 0, asked.said
    assert served.http.get("/readyz").status_code == 200
    assert "Traceback" not in served.said(), served.said().partition("Traceback")[2][:5000]


def test_a_few_requests_of_each_operation(prepared: Served, ask: Callable[..., Asked]) -> None:
    asked = ask("fuzzing,stateful")
    assert_is_as_described(asked, prepared)
    assert not asked.never


@at_length
@pytest.mark.parametrize("phases", ["examples,coverage", "fuzzing"])
def test_many_requests(phases: str, prepared: Served, ask: Callable[..., Asked]) -> None:
    asked = ask(phases)
    assert_is_as_described(asked, prepared)
    assert not asked.never


@at_length
def test_many_chains_of_requests(prepared: Served, ask: Callable[..., Asked]) -> None:
    asked = ask("stateful", "--mode", "positive", "--max-time", str(CASES))
    assert_is_as_described(asked, prepared)


@at_length
@pytest.mark.parametrize(("scope", "models"), NARROW)
def test_a_token_of_one_scope(
    scope: Scope, models: list[str] | None, prepared: Served, ask: Callable[..., Asked]
) -> None:
    wanted = {"name": "narrow", "scopes": [scope], "models": models}
    made = prepared.http.post("/v1/tokens", json=wanted).raise_for_status()
    token = made.json()["secret"]
    cases = str(max(FEW, CASES // 10))  # most are refused before anything of them is read
    asked = ask("fuzzing", "--max-examples", cases, token=token, scope=scope.value)
    assert_is_as_described(asked, prepared)
