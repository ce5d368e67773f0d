"""Two hundred clients: lists and jobs are answered quickly while uploads fill their threads."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from statistics import median

from bench.daemon import Served, mlp, served
from bench.requests.plain_http import Connection, PlainHttp
from bench.table import Row

UPLOADING, READING = 180, 20
READ_EVERY_S = 2.0
"""The interval of each reading client; together they take a twentieth of the daemon's capacity."""
SECONDS, ROUNDS = 10.0, 5
FEATURES = 16
SMALLEST = {"UPLOADING": 4, "READING": 2, "READ_EVERY_S": 0.05, "SECONDS": 1.0, "ROUNDS": 1}
PATHS = {"list": "/v1/models/m/samples?limit=50", "jobs": "/v1/jobs?model=m"}


def run() -> list[Row]:
    """Uploads with and without reading clients, in turn; the ratio is that of the medians."""
    with served() as daemon:
        daemon.register("m", mlp(FEATURES, 32, 2))
        daemon.upload("m", x=[[float(n)] * FEATURES for n in range(64)], label=[0, 1] * 32)
        daemon.train("m", epochs=1, ignore_policy=True)
        rounds = [_round(daemon, readers) for _ in range(ROUNDS) for readers in (0, READING)]
    alone = median(rate for rate, _ in rounds[::2])
    crowded = median(rate for rate, _ in rounds[1::2])
    spent = {what: [ms for _, times in rounds[1::2] for ms in times[what]] for what in PATHS}
    return [
        {
            "clients": UPLOADING + READING,
            "uploads/s": crowded,
            "uploads/s without reads": alone,
            "ratio": crowded / alone,
            **{f"{what} p50 ms": median(times) for what, times in spent.items()},
            "must reach": "p50 ≤ 50 ms, ratio ≥ 0.95",
        }
    ]


def _round(daemon: Served, readers: int) -> tuple[float, dict[str, list[float]]]:
    return asyncio.run(_Crowd(daemon).stay(readers))


class _Crowd:
    """The clients of one round, and their measurements."""

    def __init__(self, daemon: Served) -> None:
        self._http = PlainHttp(daemon)
        self._until = time.perf_counter() + SECONDS
        self._uploads = 0
        self._spent_ms: dict[str, list[float]] = {what: [] for what in PATHS}

    async def stay(self, readers: int) -> tuple[float, dict[str, list[float]]]:
        """Uploads per second, and the milliseconds of each answer to a reading client."""
        clients = [self._client(self._upload) for _ in range(UPLOADING)]
        clients += [self._client(self._read) for _ in range(readers)]
        await asyncio.gather(*clients)
        return self._uploads / SECONDS, self._spent_ms

    async def _client(self, ask: Callable[[Connection], Awaitable[None]]) -> None:
        reader, writer = await self._http.connect()
        while time.perf_counter() < self._until:
            await ask((reader, writer))
        writer.close()
        await writer.wait_closed()

    async def _upload(self, connection: Connection) -> None:
        x = [random.random() for _ in range(FEATURES)]
        body = json.dumps({"inputs": {"x": x}, "label": 1}).encode()
        assert await self._http.ask(connection, "POST /v1/models/m/samples", body) == 201
        # Reading clients may still pause after the end, when nobody uploads.
        self._uploads += time.perf_counter() < self._until

    async def _read(self, connection: Connection) -> None:
        await asyncio.sleep(random.uniform(0, 2 * READ_EVERY_S))
        what = random.choice(list(PATHS))
        began = time.perf_counter()
        assert await self._http.ask(connection, f"GET {PATHS[what]}") == 200
        self._spent_ms[what].append((time.perf_counter() - began) * 1000)
