"""Short tasks: a child answers one question, with no job, no policy and nothing to resume."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Generic, TypeVar

from msgspec.structs import replace

from service.errors import ChildDied
from service.jobs.child import Child
from service.jobs.tasks import short_task_limits
from service.processes.children import Children, work_folder
from service.settings import Settings
from service.training.errors import GraphRefused
from service.training.protocol.messages.preparation import Refused
from service.training.protocol.messages.shared import Failed
from service.training.protocol.messages.training import Dropped, Train
from service.training.protocol.messages.unions import Task
from storage.errors import HoneError
from storage.store import Store

Answer = TypeVar("Answer")
Key = TypeVar("Key", bound=Hashable)


class ShortTasks:
    """Asks children, each in a process of its own. Belongs to the event loop."""

    def __init__(self, store: Store, settings: Settings, children: Children) -> None:
        self.children = children
        self._store = store
        self._settings = settings

    def folder(self, name: str) -> AbstractAsyncContextManager[Path]:
        """A temporary folder for what a child writes, as `work_folder`."""
        return work_folder(name, parent=self._store.tmp_dir)

    async def ask(
        self,
        task: Task,
        answer: type[Answer],
        *,
        failure: str,
        refusals: tuple[type[HoneError], ...] = (),
    ) -> Answer:
        """The child's answer to a task.

        failure: what did not work, for an error's text. refusals: the child's errors that are
        raised as they are. Raises GraphRefused, ChildDied for every other end without an answer,
        and as `Child.messages` does.
        """
        limited = replace(task, limits=short_task_limits(self._settings))
        child = await Child.spawn(self.children, limited)
        try:
            silence_s = self._settings.prepare_timeout_s
            async for message in child.messages(silence_timeout_s=silence_s):
                if isinstance(message, answer):
                    return message
                if isinstance(message, Dropped) and isinstance(task, Train):
                    told = (task.model_id, message.cache, message.reason)
                    await asyncio.to_thread(self._store.events.note_dropped, *told)
                if isinstance(message, Refused):
                    raise GraphRefused(message.detail, problems=message.problems)
                if isinstance(message, Failed):
                    known = {refusal.code: refusal for refusal in refusals}
                    if message.code in known:
                        raise known[message.code](message.detail)
                    raise ChildDied(f"{failure}: {message.detail}")
        finally:
            await child.close()
        raise ChildDied(f"{failure}: the child stopped without an answer")


class AnswerCache(Generic[Key, Answer]):
    """The newest answer for each key, computed one at a time.

    most: how many are kept; the one that was not asked for the longest goes first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[Key, tuple[Hashable, Answer]] = {}
        self._one_at_a_time = asyncio.Lock()

    def newest(self, key: Key) -> Answer | None:
        """The last answer, whatever it was computed from."""
        return self._known[key][1] if key in self._known else None

    async def get(
        self, key: Key, source: Hashable, compute: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """The answer that was computed from an equal source, or a new one."""
        async with self._one_at_a_time:
            known = self._known.get(key)
            answer = known[1] if known and known[0] == source else await compute()
            self._known.pop(key, None)
            self._known[key] = source, answer
            while len(self._known) > self._most:
                self._known.pop(next(iter(self._known)))
            return answer
