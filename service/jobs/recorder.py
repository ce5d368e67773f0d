"""Writes a job's run into the store: progress, points of the curves, checkpoints, the end."""

from __future__ import annotations

import logging
import time
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from service.events import Announce
from service.logs import event
from service.training.errors import SamplesInvalid
from service.training.protocol.messages.training import (
    Chosen,
    Decoded,
    Dropped,
    Measured,
    Progress,
    Quarantined,
    Saved,
    Seen,
    Started,
)
from service.training.protocol.messages.unions import Noted
from service.training.protocol.serialization import plain
from storage.errors import Busy, StorageFull, counted
from storage.records.id_set import decode
from storage.records.jobs import Job, JobState, MetricPoint
from storage.records.samples import DAMAGED
from storage.store import Store

logger = logging.getLogger(__name__)

REPORT_INTERVAL_S = 1.0
"""Progress of steps that go on reaches the job's row at most this often: each write costs a flush
of the disk."""
MAX_POINTS_KEPT = 10_000
"""Points of the curves that wait in memory for disk space; the oldest are dropped first."""


class Recorder:
    """Writes one job. Blocking: call it from a thread."""

    def __init__(
        self,
        job: Job,
        store: Store,
        *,
        announce: Announce,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._store = store
        self._announce = announce
        self._monotonic = monotonic
        self._points: deque[MetricPoint] = deque(maxlen=MAX_POINTS_KEPT)
        self._is_dropping = False
        self._unwritten: Progress | None = None
        self._reported_at = -REPORT_INTERVAL_S
        self._step, self._moves = int(job.progress.get("step", 0)), False
        self.warnings: list[str] = []
        """What the job warns of, without what its child says at the end."""
        self._engine = ""

    def started(self, message: Started) -> None:
        """The child has loaded engine and samples."""
        self._log(
            "job.training",
            engine=message.engine,
            threads=message.threads,
            samples=message.train_samples,
            warnings=len(message.warnings),
        )
        self.warnings = list(dict.fromkeys((*self.warnings, *message.warnings)))
        self._engine = message.engine

    def noted(self, message: Noted) -> None:
        """Record what the child reports about samples and its choices before it trains."""
        match message:
            case Chosen(values, reasons):
                self._store.jobs.choose(self._job.id, values, reasons=reasons)
            case Seen(ids, started_from):  # before the job trains on them
                seen = decode(b64decode(ids))
                self._store.lineage.add(self._job.id, seen, started_from=started_from)
            case Quarantined(reasons):
                by_id = {int(sample_id): reason for sample_id, reason in reasons.items()}
                self._refuse_misfits(by_id)
                self._store.samples.quarantine(self._job.model_id, by_id)
                self._log("samples.quarantined", samples=len(by_id))
            case Dropped(cache, reason):
                self._store.events.note_dropped(self._job.model_id, cache, reason)
                self.warnings.append(
                    f"the cache of {cache} was damaged ({reason}), and is made anew; the disk may"
                    " be failing"
                )
            case Decoded():
                self._log(
                    "job.decoded",
                    samples=message.samples,
                    decoded=message.decoded,
                    cached=message.kept,
                    seconds=round(message.seconds, 3),
                )

    def _refuse_misfits(self, reasons: Mapping[int, str]) -> None:
        """Raises SamplesInvalid if an upgrade cannot take samples, which the old base may take."""
        misfits = {name: why for name, why in reasons.items() if not why.startswith(DAMAGED)}
        waiting = self._store.bases.waiting().get(self._job.model)
        if misfits and waiting == (self._job.model_id, self._job.base):
            first = min(misfits)
            raise SamplesInvalid(
                f"the new base does not fit {counted(len(misfits), 'stored sample')}, such as "
                f"{first}: {misfits[first]}"
            )

    def measured(self, message: Measured) -> None:
        """Keep a point for the next report."""
        self._points.append(MetricPoint(message.step, message.epoch, message.values))

    def progressed(self, message: Progress) -> bool:
        """Keep the progress; whether it is time to `report` it: the first step is told at once."""
        self._unwritten = message
        moved, begins = message.step > self._step, not self._moves
        self._step, self._moves = message.step, moved
        return (moved and begins) or self._monotonic() - self._reported_at >= REPORT_INTERVAL_S

    def report(self) -> None:
        """Write the progress and the points since the last report.

        If the disk or the queue is full, progress is dropped: the job continues, and the points
        wait for the next report.
        """
        message, self._unwritten = self._unwritten, None
        if message is not None:
            self._reported_at = self._monotonic()
        try:
            if self._points:
                self._store.metrics.add(self._job.id, list(self._points))
                self._points.clear()
            if message is not None:
                self._write_progress(message)
        except (StorageFull, Busy) as error:
            if not self._is_dropping:
                self._log("job.progress_dropped", code=error.code, detail=error.detail)
            self._is_dropping = True
        else:
            self._is_dropping = False

    def _write_progress(self, message: Progress) -> None:
        progress = asdict(message)
        loss = progress.pop("train_loss")
        self._store.jobs.report(
            self._job.id,
            progress=progress,
            metrics={"train_loss": loss, "warnings": self.warnings},
            engine=self._engine,
        )
        told = {"job_id": self._job.id, **progress, "train_loss": loss}
        self._announce("job.progress", self._job.model, told)

    def saved(self, message: Saved) -> None:
        """Publish a checkpoint's file, then its row."""
        self.report()
        with self._store.files.adopting() as adopt:
            self._store.checkpoints.add(
                model_id=self._job.model_id,
                job_id=self._job.id,
                role=message.role,
                step=message.state.step,
                epoch=message.state.epoch,
                engine=self._engine,
                file=adopt(Path(message.path)),
                state=plain(message.state),
            )

    def ended(self, to: JobState, **fields: Any) -> None:
        """Move the job out of `running`, and log why."""
        self.report()
        self._store.jobs.move(self._job.id, JobState.RUNNING, to, **fields)
        if blockers := fields.pop("blocked_by", ()):
            fields["by"] = [blocker.condition for blocker in blockers]
        self._log(f"job.{to.value}", **fields)

    def _log(self, name: str, **fields: Any) -> None:
        event(logger, logging.INFO, name, job=self._job.id, model=self._job.model, **fields)
