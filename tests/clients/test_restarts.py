"""Clients that wait for a job while its daemon restarts, as for an upgrade."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from honed_client import AsyncClient, Client
from programs import printed
from support import DEADLINE_S, Served, blobs, mlp, wait_until

JS = Path(__file__).parents[2] / "clients" / "js"
LONG = {"epochs": 1_000_000, "ignore_policy": True}


def by_threads() -> str:
    with Client() as client:
        return str(client.model("threads").train(wait=True, **LONG)["state"])


def by_asyncio() -> str:
    async def train() -> str:
        async with AsyncClient() as client:
            return str((await client.model("asyncio").train(wait=True, **LONG))["state"])

    return asyncio.run(train())


def by_node() -> str:
    program = """
        import { localClient } from "./src/node.js";
        const model = (await localClient()).model("node");
        const options = { wait: true, epochs: 1000000, ignore_policy: true };
        console.log((await model.train(options)).state);
    """
    return printed("node", "--input-type=module", "--eval", program, cwd=JS).strip()


# httpcore leaves a Unix socket that nobody listens at to garbage collection.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no socket stays the same")
def test_a_job_is_waited_for_beyond_a_restart_of_the_daemon(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    monkeypatch.setenv("HONED_CONFIG", os.devnull)
    monkeypatch.setenv("HONED_DATA_DIR", str(served.data_dir))
    ways = {"threads": by_threads, "asyncio": by_asyncio}
    if shutil.which("node"):
        ways["node"] = by_node
    for name in ways:
        served.register(name, mlp(32, 64, 4))
        served.upload(name, **blobs(500, 32, 4))
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(way) for way in ways.values()]
        wait_until(lambda: len(served.http.get("/v1/jobs").json()["items"]) == len(ways), "jobs")
        served.stop()
        again = serve()
        for job in again.http.get("/v1/jobs").json()["items"]:
            again.http.post(f"/v1/jobs/{job['id']}/cancel").raise_for_status()
        assert {each.result(DEADLINE_S) for each in waiting} == {"cancelled"}
