"""Requests of a federation to this device's daemon."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from threading import Event
from typing import Any
from urllib.parse import quote

from honed_client import Client, HonedError, Unreachable
from honed_client.calls import ENDED, Call, model_path

POLL_S = 0.25
LONGEST_POLL_S = 2.0
GRACE_S = 60.0
"""Time after a deadline to finish the step, clip, add noise and write, or to restart the daemon."""
BINARY = {"Content-Type": "application/octet-stream"}


class NoUpdate(Exception):
    """The round made no update; the message says why."""


class Stopped(Exception):
    """The federation no longer needs the round."""


class Device:
    """One model of a daemon. stopped: set when the run that requested a round has ended.

    note: called with a round's id when it begins, and with None when it has ended.
    """

    def __init__(
        self,
        client: Client,
        model: str,
        *,
        superlink: str | None = None,
        stopped: Event | None = None,
        note: Callable[[int | None], None] = lambda _: None,
    ) -> None:
        self._client = client
        self.model = model
        self._superlink = superlink
        self._stopped = stopped or Event()
        self._note = note

    def require_access(self) -> None:
        """Ask as a round does, without one. Raises HonedError if the daemon refuses the token or
        has no such model for it, Unreachable.
        """
        try:
            self._client.send(Call("POST", model_path(self.model, "rounds")))
        except HonedError as error:
            if error.code != "unsupported_media_type":
                raise

    def train(self, parameters: bytes, spec: Mapping[str, Any]) -> tuple[bytes, int]:
        """Run a round to its end; returns its update, and the number of samples it comes from.

        spec: fields of api.schemas.federation.RoundRequest, with the round's number. Raises
        NoUpdate, Stopped, HonedError, Unreachable.
        """
        asked = {**spec, "superlink": self._superlink}
        parts = {
            "spec": (None, json.dumps(asked), "application/json"),
            "parameters": ("parameters.safetensors", parameters),
        }
        call = Call("POST", model_path(self.model, "rounds"), files=parts)
        begun = self._client.send(call).json()
        self._note(begun["id"])
        try:
            ended = self._wait(begun["id"], spec.get("deadline_seconds"))
            if not ended["has_update"]:
                raise NoUpdate(_why(ended))
            update = self._client.send(Call("GET", f"/v1/rounds/{begun['id']}/update"))
            return update.content, ended["samples"]
        finally:
            self._note(None)

    def evaluate(self, parameters: bytes, tokenizer: str | None = None) -> dict[str, Any]:
        """Metrics of these parameters on the device's own validation samples.

        tokenizer: the SHA-256 of that which they are for, of a model of texts.
        """
        answer = self._client.send(self._given("POST", "evaluate", parameters, tokenizer))
        metrics: dict[str, Any] = answer.json()["metrics"]
        return metrics

    def take(self, parameters: bytes, tokenizer: str | None = None) -> None:
        """Submit them to the daemon's gate, personalized if the device's consent says so."""
        self._client.send(self._given("PUT", "parameters", parameters, tokenizer))

    def _given(self, method: str, path: str, parameters: bytes, tokenizer: str | None) -> Call:
        path, params = model_path(self.model, path), {"tokenizer_sha256": tokenizer}
        return Call(method, path, params=params, headers=BINARY, content=parameters)

    def stop(self, round_id: int) -> None:
        """End a round within a second; if it has already ended, remove its update."""
        self._client.send(Call("DELETE", f"/v1/rounds/{quote(str(round_id))}"))

    def _wait(self, round_id: int, deadline_s: float | None) -> dict[str, Any]:
        """The round once it has ended; an unreachable daemon is retried until the deadline."""
        until = None if deadline_s is None else time.monotonic() + deadline_s + GRACE_S
        pause_s = POLL_S
        while True:
            if self._stopped.is_set():
                self.stop(round_id)
                raise Stopped(f"round {round_id} was stopped: the run has ended")
            try:
                shown: dict[str, Any] = self._client.get(f"/v1/rounds/{round_id}")
                if shown["state"] in ENDED:
                    return shown
            except Unreachable:
                if until is None or time.monotonic() > until:
                    raise
            if until is not None and time.monotonic() > until:
                self.stop(round_id)
                raise NoUpdate("the deadline passed, and the round went on; it was stopped")
            self._stopped.wait(pause_s)
            pause_s = min(pause_s * 1.2, LONGEST_POLL_S)


def _why(ended: Mapping[str, Any]) -> str:
    code = (ended["error"] or {}).get("code", "its update is gone")
    return f"round {ended['round']} is {ended['state']}: {code}"


def reason(error: Exception) -> str:
    """What the federation is told of a failure: details only if its own input was invalid.

    The device's log has the rest: the federation learns nothing of budgets and sample counts.
    """
    if isinstance(error, HonedError):
        told = str(error) if error.code == "invalid_input" else "the device's log says why"
        return f"refused: {error.code}: {told}"
    if isinstance(error, Unreachable):
        return "no update: the device's daemon does not answer"
    if isinstance(error, NoUpdate | Stopped):
        return f"no update: {error}"
    return f"no update: {type(error).__name__}"
