from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE_S, Served, blobs, mlp

from cli.client import Client, model_path
from cli.commands.jobs.training import watch_job

QUICK = ("--epochs", 2, "--seed", 1, "--batch-size", 16)


def test_a_watched_job_ends_with_its_version(
    honed: Callable[..., Any], add_model: Callable[..., str]
) -> None:
    done = honed("train", add_model(samples=100), *QUICK, "--watch")
    assert done.returncode == 0, done.stderr
    assert "version     2" in done.stdout
    assert "gate        " in done.stdout
    assert "apps fetch  version " in done.stdout


def test_a_version_that_the_gate_refused_is_no_success_to_see(
    honed: Callable[..., Any], add_model: Callable[..., str]
) -> None:
    name = add_model(samples=200)
    ruined = ("--epochs", 2, "--learning-rate", 50, "--watch")
    done = honed("train", name, *ruined)
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[1]
    assert first.endswith("version 2 is not promoted: apps keep version 1")
    assert "succeeded" not in done.stdout
    assert "apps fetch  version 1: " in done.stdout

    header, refused, registered = honed("versions", "list", name).stdout.splitlines()
    assert header.split()[2:6] == ["METRIC", "BASELINE", "BASE", "SET"]
    assert "not promoted, worse" in refused
    assert "accuracy" in refused
    assert "registered" in registered


def test_what_apps_fetch_is_told_as_the_gate_measured_it(
    honed: Callable[..., Any], client: Client, add_model: Callable[..., str]
) -> None:
    name = add_model(samples=200)
    honed("train", name, "--epochs", 20, "--learning-rate", 0.005, "--seed", 1, "--watch")
    honed("promote", name, 2)
    honed("gate", "set", name, "mode=manual")
    done = honed("train", name, *QUICK, "--from", "base", "--max-steps", 1, "--watch")
    (told,) = [line for line in done.stdout.splitlines() if line.startswith("apps fetch  ")]
    accuracy = client.get(model_path(name, "versions", 3))["baseline"]["accuracy"]
    assert told.startswith("apps fetch  version 2: ")
    assert f"accuracy={accuracy:.4g}," in told


def test_a_computed_head_takes_no_steps_of_none(
    honed: Callable[..., Any], add_model: Callable[..., str]
) -> None:
    name = add_model(samples=100)
    done = honed("train", name, "--head", "knn:3", "--watch", "--json")
    assert json.loads(done.stdout)["hyperparameters"]["head"] == {"kind": "knn", "k": 3}
    assert " 0/0 " in honed("jobs", "list", "--model", name).stdout


def test_a_job_for_a_script_is_one_json_document(
    honed: Callable[..., Any], add_model: Callable[..., str]
) -> None:
    done = honed("train", add_model(samples=100), *QUICK, "--from", "base", "--watch", "--json")
    job = json.loads(done.stdout)
    assert job["state"] == "succeeded"
    assert job["hyperparameters"]["epochs"] == 2
    assert job["hyperparameters"]["from"] == "base"
    shown = honed("jobs", "show", job["id"]).stdout
    assert f"engine           {job['engine']}\n" in shown


def test_a_job_that_only_time_ends_can_be_watched(
    honed: Callable[..., Any], add_model: Callable[..., str]
) -> None:
    done = honed("train", add_model(samples=100), "--max-seconds", 0.3, "--watch", "--json")
    assert json.loads(done.stdout)["state"] == "succeeded", done.stderr


def test_a_watched_job_that_fails_before_its_first_figure_says_why(
    honed: Callable[..., Any], client: Client, tmp_path: Path
) -> None:
    (tmp_path / "towers.onnx").write_bytes(mlp(4, 8, 1))
    honed("models", "add", tmp_path / "towers.onnx", "--name", "towers", "--loss", "mse")
    samples = [{"inputs": {"x": [at, 1, 2, 3]}, "label": [at * 1e37]} for at in range(30)]
    client.post(model_path("towers", "samples"), {"samples": samples})
    done = honed("train", "towers", "--epochs", 1, "--now", "--watch")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].endswith(" failed")
    assert "loss" in done.stderr


def test_a_job_without_samples_fails_the_command(
    honed: Callable[..., Any], add_model: Callable[..., str]
) -> None:
    done = honed("train", add_model(), *QUICK, "--watch")
    assert done.returncode == 1
    assert "sample" in done.stderr


def test_a_wrong_hyperparameter_is_named(
    honed: Callable[..., Any], add_model: Callable[..., str]
) -> None:
    done = honed("train", add_model(samples=10), "--epochs", 0)
    assert done.returncode == 1
    assert "/epochs" in done.stderr


def test_a_job_is_not_waited_for_unless_watched(
    honed: Callable[..., Any],
    client: Client,
    add_model: Callable[..., str],
    wait_for: Callable[..., Any],
) -> None:
    done = honed("train", add_model(samples=50), *QUICK, "--json")
    job = json.loads(done.stdout)
    assert job["state"] in {"queued", "running"}
    wait_for(
        lambda: client.get(f"/v1/jobs/{job['id']}")["state"] == "succeeded", what="the job's end"
    )


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
# httpcore leaves a Unix socket that nobody listens at to garbage collection.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no socket that stays the same")
def test_a_job_is_watched_beyond_a_restart_of_the_daemon(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    served.register("m", mlp(32, 64, 4))
    served.upload("m", **blobs(500, 32, 4))
    job = served.ask_for_job("m", epochs=1_000_000, ignore_policy=True)
    served.wait_for_job(job["id"], "running")
    monkeypatch.setenv("HONED_CONFIG", os.devnull)
    monkeypatch.setenv("HONED_DATA_DIR", str(served.data_dir))
    client = Client()
    assert client.endpoint.startswith("unix:")
    with ThreadPoolExecutor() as pool:
        watching = pool.submit(watch_job, client, job)
        served.stop()
        again = serve()
        again.http.post(f"/v1/jobs/{job['id']}/cancel").raise_for_status()
        assert watching.result(DEADLINE_S)["state"] == "cancelled"
    client.close()


def test_ctrl_c_ends_the_watching_and_not_the_job(
    client: Client,
    variables: dict[str, str],
    add_model: Callable[..., str],
    wait_for: Callable[..., Any],
) -> None:
    name = add_model(samples=50)
    watching = subprocess.Popen(
        [sys.executable, "-m", "honed", "train", name, "--max-seconds", "300", "--watch"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables, "PYTHONUNBUFFERED": "1"},
    )
    assert watching.stdout is not None
    queued = watching.stdout.readline()
    running = {"model": name, "state": "running"}
    (job,) = wait_for(lambda: list(client.items("/v1/jobs", **running)), what="the job to run")
    watching.send_signal(signal.SIGINT)
    _, told = watching.communicate(timeout=DEADLINE_S)
    assert queued.startswith(f"job {job['id']} is ")
    assert watching.returncode == 1
    assert f"stopped watching; job {job['id']} goes on" in told
    assert client.get(f"/v1/jobs/{job['id']}")["state"] == "running"
    client.post(f"/v1/jobs/{job['id']}/cancel")
