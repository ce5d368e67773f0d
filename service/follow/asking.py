"""One model's source asked once: the question, what is recorded of the answer, the upgrade begun.

Loaded when a source is due: a daemon whose models follow none does without.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from service.errors import ChildDied
from service.follow import outcome
from service.follow.credentials import login_of
from service.follow.errors import BaseRefused, named
from service.follow.messages import (
    LAST_MESSAGES,
    Fetched,
    FetchFailed,
    FetchMessage,
    Inquiry,
    Offers,
    Reported,
    Unchanged,
    VendorReport,
    line,
    message_in,
)
from service.follow.report import report_body
from service.follow.source import parsed
from service.follow.statement import draw
from service.logs import event
from service.models.upgrade.spec import upgrade_spec
from service.models.upgrade.upgrades import Upgrades
from service.processes.children import Children
from service.processes.exits import ErrorTail, describe_exit
from service.settings import Settings
from storage.disk.durable import file_faults, make_folder
from storage.errors import HoneError, in_full
from storage.records.follows import Follow, FollowProgress, Told
from storage.store import Store

logger = logging.getLogger(__name__)

UNFIT = frozenset({"graph_refused", "invalid_input", "preparation_failed"})
"""Errors of a base that no other try changes."""
MOST_LINE_BYTES = 4 << 20
SILENCE_S = 300.0
"""A child that reports nothing for so long hangs: it reports a download every second, and its
requests time out."""


class Asking:
    """Asks a source. Every change of progress is stored before the next step, so that a restart
    goes on where it was.

    folder: of its downloads.
    """

    def __init__(
        self,
        follow: Follow,
        store: Store,
        settings: Settings,
        *,
        folder: Path,
        children: Children,
        upgrades: Upgrades,
        now: Callable[[], datetime],
    ) -> None:
        self._follow = follow
        self._store = store
        self._settings = settings
        self._folder = folder
        self._children = children
        self._upgrades = upgrades
        self._now = now
        self.model = follow.model
        self._process: asyncio.subprocess.Process | None = None
        self._interrupted = False

    def interrupt(self) -> None:
        """End it; what was downloaded stays, and nothing is recorded."""
        self._interrupted = True
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def run(self) -> None:
        """Ask, and record what came of it."""
        try:
            await self._ask()
        except HoneError as error:
            await self._failed(error)

    async def _ask(self) -> None:
        inquiry = await asyncio.to_thread(self._inquiry)
        mark: str | None = None
        async with aclosing(self._messages(inquiry)) as messages:
            async for message in messages:
                if isinstance(message, Reported):
                    await self._note_report(message)
                elif isinstance(message, Offers):
                    mark = message.mark or None
                    await self._note(*outcome.offered(self._follow, message.base))
                    if not message.wanted:
                        await self._settle(mark=mark)
                elif isinstance(message, Fetched):
                    await self._take(message, mark)
                elif isinstance(message, FetchFailed):
                    raise named(message.code, message.detail)
                elif isinstance(message, Unchanged):
                    await self._settle()

    async def _note_report(self, message: Reported) -> None:
        """A report that was not taken is sent with the next question."""
        told = {"model": self.model, "error": message.error}
        event(logger, logging.INFO, "follow.reported", **told)
        if message.error is None:
            progress = self._follow.progress
            await self._note(replace(progress, reported=progress.taken), [])

    async def _take(self, fetched: Fetched, mark: str | None) -> None:
        """Begin the upgrade. What the model cannot take is not tried again until it changes."""
        base = self._follow.progress.offered
        assert base is not None
        model = await asyncio.to_thread(self._store.models.get, self.model)
        try:
            job = await self._upgrades.begin(
                model,
                upgrade_spec(fetched.spec),
                Path(fetched.model),
                tokenizer=None if fetched.tokenizer is None else Path(fetched.tokenizer),
            )
        except HoneError as error:
            if error.code not in UNFIT:
                raise
            self._follow = replace(self._follow, progress=replace(self._follow.progress, mark=mark))
            await self._failed(BaseRefused(f"version {base.version}: {in_full(error)}"))
        else:
            event(logger, logging.INFO, "follow.taken", model=self.model, version=base.version)
            at = self._now()
            await self._settle(taken=base.version, taken_at=at, job_id=job.id, mark=mark)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _inquiry(self) -> Inquiry:
        with file_faults("cannot make the folder of downloads"):
            make_folder(self._folder.parent)
            make_folder(self._folder)
        terms, known = self._follow.terms, self._follow.progress
        login = login_of(self._settings.registry_credentials, parsed(terms.source).host)
        return Inquiry(
            terms=terms,
            draw=draw(self._store.follows.device_identity(), terms.name),
            folder=str(self._folder),
            reserve_bytes=self._settings.disk_reserve_bytes,
            mark=known.mark,
            offered=known.offered,
            taken=known.taken,
            login=login,
            report=self._report(),
        )

    def _report(self) -> VendorReport | None:
        """On an upgrade that has ended since the last, if a person allows it."""
        url, progress = self._follow.terms.report, self._follow.progress
        if url is None or progress.reported == progress.taken:
            return None
        body = report_body(self._store, self._follow, self._now())
        return None if body is None else VendorReport(url, body)

    async def _settle(self, **changes: Any) -> None:
        await self._note(*outcome.settled(self._follow, self._now(), **changes))

    async def _failed(self, error: HoneError) -> None:
        told = {"model": self.model, "code": error.code, "detail": error.detail}
        event(logger, logging.WARNING, "follow.failed", **told)
        await self._note(*outcome.failed(self._follow, error, self._now()))

    async def _note(self, progress: FollowProgress, told: list[Told]) -> None:
        await asyncio.to_thread(self._store.follows.note, self._follow, progress, *told)
        self._follow = replace(self._follow, progress=progress)

    async def _messages(self, inquiry: Inquiry) -> AsyncGenerator[FetchMessage, None]:
        """What the child says, until the last or an interrupt. Raises ChildDied, Busy."""
        process = await self._children.spawn("service.follow", buffer_bytes=MOST_LINE_BYTES)
        self._process = process
        assert process.stdin is not None
        assert process.stderr is not None
        errors = ErrorTail(process.stderr)
        if self._interrupted:
            process.kill()
        try:
            process.stdin.write(line(inquiry))
            while (message := await self._next(process, errors)) is not None:
                yield message
                if isinstance(message, LAST_MESSAGES):
                    return
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await errors.wait()

    async def _next(
        self, process: asyncio.subprocess.Process, errors: ErrorTail
    ) -> FetchMessage | None:
        """None once interrupted, or at the end of an answer without a last message."""
        assert process.stdout is not None
        try:
            text = await asyncio.wait_for(process.stdout.readline(), SILENCE_S)
        except asyncio.TimeoutError:
            raise ChildDied(
                f"the child that asks a source said nothing for {SILENCE_S:g} s"
            ) from None
        if self._interrupted:
            return None
        if text:
            return message_in(text)
        code = await process.wait()
        await errors.wait()
        if code == 0:
            return None
        raise ChildDied(f"the child that asks a source {describe_exit(code)}{errors.quote()}")
