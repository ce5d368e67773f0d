"""The operator's command that runs when `latest` of a model moves."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
from collections.abc import Sequence

from service.errors import BadSetting
from service.events import Feed
from service.logs import event
from service.models.latest import Latest, LatestVersions
from service.processes.interpreter import foreign_environment
from service.settings import Settings
from storage.database.transaction import Happening
from storage.errors import HoneError, in_words
from storage.store import Store

logger = logging.getLogger(__name__)

MOVES = frozenset({"version.promoted", "version.rolled_back"})
LAST_WORDS_BYTES = 4096
"""How much of the end of a command's output is logged."""
READ_BYTES = 65536
OUTPUT_GRACE_S = 2.0
"""How long the output of a killed command may stay open."""


def require_program(command: Sequence[str]) -> None:
    """Raises BadSetting if the command's program is missing, or may not be run."""
    if command and shutil.which(command[0]) is None:
        raise BadSetting(f"HONED_ON_PROMOTED: there is no program {command[0]!r} that can be run")


class PromotionHook:
    """Runs the setting `on_promoted`, one command at a time for each model.

    Moves while it runs are merged: it runs once more, with what `latest` names then. Belongs to the
    event loop.
    """

    def __init__(
        self, store: Store, settings: Settings, *, latest: LatestVersions, feed: Feed
    ) -> None:
        self._store = store
        self._command = settings.on_promoted
        self._timeout_s = settings.on_promoted_timeout_s
        self._latest = latest
        self._moved: set[str] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        if self._command:
            feed.listen(self._on_event)

    @property
    def busy(self) -> bool:
        """Whether a command runs."""
        return bool(self._running)

    async def stop(self) -> None:
        """Kill the running commands."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _on_event(self, happened: Happening) -> None:
        model = happened.model
        if model is None or happened.type not in MOVES:
            return
        self._moved.add(model)
        if model not in self._running:
            task = self._running[model] = asyncio.create_task(self._run_while_it_moves(model))
            task.add_done_callback(lambda _: self._running.pop(model))

    async def _run_while_it_moves(self, model: str) -> None:
        while model in self._moved:
            self._moved.discard(model)
            try:
                await self._run(await self._latest.get(model))
            except (HoneError, OSError) as error:
                event(logger, logging.ERROR, "hook.failed", model=model, detail=in_words(error))

    async def _run(self, latest: Latest) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=self._environment(latest),
                start_new_session=sys.platform != "win32",
            )
        except OSError as error:
            error.filename = self._command[0]  # Windows does not say which
            raise
        ended = asyncio.gather(_last_words(process), process.wait())
        try:
            words, code = await asyncio.wait_for(asyncio.shield(ended), self._timeout_s)
            failed, detail = code != 0, f"exit code {code}"
        except asyncio.TimeoutError:
            words = await _end(process, ended)
            failed, detail = True, f"killed after {self._timeout_s:g} s"
        except asyncio.CancelledError:
            await _end(process, ended)
            raise
        event(
            logger,
            logging.ERROR if failed else logging.INFO,
            "hook.failed" if failed else "hook.ended",
            model=latest.version.model,
            version=latest.version.version,
            detail=detail,
            output=words,
        )

    def _environment(self, latest: Latest) -> dict[str, str]:
        version = latest.version
        return {
            **foreign_environment(),
            "HONED_MODEL": version.model,
            "HONED_VERSION": str(version.version),
            "HONED_SHA256": version.file.sha256,
            "HONED_MODEL_FILE": str(self._store.files.whole_path(version.file.sha256)),
        }


async def _last_words(process: asyncio.subprocess.Process) -> str:
    """The end of the output, once nothing can write to it any more."""
    assert process.stdout is not None
    words = b""
    while chunk := await process.stdout.read(READ_BYTES):
        words = (words + chunk)[-LAST_WORDS_BYTES:]
    return words.decode(errors="replace").strip()


async def _end(process: asyncio.subprocess.Process, ended: asyncio.Future[tuple[str, int]]) -> str:
    """Kill the command, and return its last words.

    A process that it started in another session survives and may hold the output open forever;
    asyncio considers the command ended only once its output is closed.
    """
    _kill(process)
    try:
        words, _ = await asyncio.wait_for(asyncio.shield(ended), OUTPUT_GRACE_S)
    except asyncio.TimeoutError:
        process._transport.close()  # type: ignore[attr-defined]
        words, _ = await ended
    return words


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the command and its process group."""
    if sys.platform == "win32":
        _kill_tree(process.pid)
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _kill_tree(pid: int) -> None:
    import psutil

    try:
        command = psutil.Process(pid)
        for child in (*command.children(recursive=True), command):
            child.kill()
    except psutil.NoSuchProcess:
        return
