"""A device of the simulation: a daemon's store, engine and gate in the process that asks.

It stands where honed-flower's ClientApp asks the daemon. What a daemon does in children is done
here: everything between the message and the file of the update is the daemon's own code.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from honed_flower import client_app
from honed_flower.device import NoUpdate

from api.schemas.federation import RoundRequest
from bench.federation.devices import FEDERATION, MODEL, folder_of, opened
from service.federation.rounds import begin_round, send_parameters
from service.jobs import run
from service.jobs.tasks import short_task_limits
from service.settings import Settings
from service.training.__main__ import load
from service.training.protocol.messages.shared import Failed, ResourceLimits
from storage.errors import HoneError
from storage.records.jobs import Job, JobState
from storage.store import Store

FOLDER = "BENCH_DEVICES"
"""Names the folder of all devices, for the processes in which Ray runs them."""


class InProcess:
    """What `service.jobs.child.Child` is to a job's run, without the process; also its pipe."""

    stop, held = None, False

    def __init__(self, task: Any) -> None:
        self._task = task
        self._said: list[Any] = []

    @classmethod
    async def spawn(cls, _: object, task: Any, *, on_stderr: object) -> InProcess:
        """Begin nothing yet."""
        del on_stderr  # nobody writes there
        return cls(task)

    def send(self, message: Any) -> None:
        """Keep what the task says."""
        self._said.append(message)

    async def messages(self, *, silence_timeout_s: float) -> AsyncIterator[Any]:
        """Carry out the task; what it has said, up to its last message."""
        del silence_timeout_s  # nobody could end it
        try:
            last = load(self._task.kind)(self._task, self)
        except HoneError as error:
            last = Failed(error.code, error.detail)
        for line in [*self._said, last]:
            yield line

    async def close(self) -> None:
        """Nothing is left to end."""


class Limits:
    """The device monitor's, of a device that can always spare it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def limits(self) -> ResourceLimits:
        """One thread with two processors."""
        return short_task_limits(self._settings)


class Device:
    """As `honed_flower.device.Device`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._settings = Settings(data_dir=store.data_dir)

    def train(self, parameters: bytes, spec: Mapping[str, Any]) -> tuple[bytes, int]:
        """A round to its end: its update, and the number of samples it comes from."""
        asked = RoundRequest(**spec, superlink=FEDERATION).model_dump()
        begun = self._begin(parameters, lambda *it: begin_round(*it, asked, store=self._store))
        self._carry_out(begun.job)
        ended = self._store.rounds.get(begun.job.id)
        update = self._store.rounds.file(begun.job.id, "update")
        if update is None:
            raise NoUpdate(f"round {ended.number} is {ended.job.state}: {ended.job.error}")
        return self._store.files.path(update.sha256).read_bytes(), ended.outcome["samples"]

    def take(self, parameters: bytes, tokenizer: str | None = None) -> None:
        """Personalize them, and have the gate judge what comes of it."""
        del tokenizer  # of models of texts
        self._carry_out(
            self._begin(
                parameters, lambda *it: send_parameters(*it, store=self._store, personalize=None)
            )
        )

    def _begin(self, parameters: bytes, begin: Callable[..., Any]) -> Any:
        with tempfile.NamedTemporaryFile(dir=self._store.tmp_dir, delete=False) as file:
            file.write(parameters)
        return begin(self._store.models.get(MODEL), Path(file.name))

    def _carry_out(self, job: Job) -> None:
        running = self._store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)
        job_run = run.JobRun(
            running,
            store=self._store,
            settings=self._settings,
            monitor=Limits(self._settings),  # type: ignore[arg-type]
            children=None,  # type: ignore[arg-type]
            announce=lambda *_: None,
        )
        asyncio.run(job_run.train())


@contextmanager
def open_device(context: Context) -> Iterator[Device]:
    """The device of a node of the simulation."""
    number = int(context.node_config["partition-id"])
    with opened(folder_of(Path(os.environ[FOLDER]), number)) as store:
        yield Device(store)


client_app.open_device = open_device
run.Child = InProcess  # type: ignore[assignment,misc]


def app(message: Message, context: Context) -> Message:
    """honed-flower's ClientApp; by this name the processes of Ray load this module with it."""
    return client_app.app(message, context)
