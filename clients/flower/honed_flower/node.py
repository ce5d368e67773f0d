"""A device's node: handles the messages that the SuperNode receives, and monitors the run.

The SuperNode is Flower's program, with `--isolation process`: it talks to the SuperLink and gives
messages on 127.0.0.1 to clients that know a secret. Flower's own executor would install and start
the code that came with the run. `Executor` calls the ClientApp of this package instead: nothing
that a SuperLink sends is ever run. It also polls the SuperLink whether the run continues, which
Flower does not while a ClientApp works, and stops the daemon's training when it does not.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from flwr.app import Context, Error, Message
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.node_pb2 import Node as NodeProto
from flwr.proto.run_pb2 import GetRunRequest
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output
from honed_client import Client, HonedError, Unreachable

from honed_flower import client_app
from honed_flower.device import Device
from honed_flower.state import State
from honed_flower.supernode import Membership, SuperNode, read_key, unreachable, wrong_clock

logger = logging.getLogger("honed_flower")
POLL_S = 0.5
WATCH_S = 3.0
LOOK_S = 30.0
REFUSALS = ("unauthorized", "insufficient_scope", "not_found")
"""Errors of the daemon that end a node: of its token, and of a model that is gone."""
ACQUIRE = "/flwr.proto.Runtime/AcquireTask"


class Executor:
    """Handles messages one after the other, until `stop` is set or the SuperNode ends."""

    def __init__(
        self, member: Membership, node: SuperNode, state: State, stop: threading.Event
    ) -> None:
        self._member = member
        self._node = node
        self._state = state
        self._stop = stop
        self._look_at = time.monotonic()

    def run(self) -> int:
        """Run to the end; returns 0 if `stop` was set, else the SuperNode's exit code or 1, as once
        the daemon refuses the node.

        Flower's SuperNode ends with 0 if the SuperLink answers that it does not know it.
        """
        guard = SuperExecAuthHttpInterceptor(
            master_secret=self._node.secret, protected_methods=[ACQUIRE]
        )
        request = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
        with self._runtime(guard) as client:
            while not self._stop.is_set():
                if (code := self._node.exit_code()) is not None:
                    return code or 1
                try:
                    token = client.AcquireTask(request).token
                except httpx.TransportError:  # it does not listen yet, or no longer
                    token = ""
                if token:
                    if self._carry_out(token) and refusal(self._member):
                        return 1
                else:
                    self._look_for_superlink()
                    self._stop.wait(POLL_S)
        return 0

    def _look_for_superlink(self) -> None:
        """Twice a minute: tell log and state if it does not answer, and once it does again."""
        if time.monotonic() < self._look_at:
            return
        why = unreachable(self._member)
        self._look_at = time.monotonic() + LOOK_S
        if why != self._state.facts.get("away"):
            logger.warning("%s", why or f"the SuperLink {self._member.superlink} answers again")
            self._state.update(away=why)

    def _carry_out(self, token: str) -> str:
        """Handle a message; returns why it failed, empty if it did not."""
        with self._runtime(RuntimeTokenHttpInterceptor(token)) as client:
            beat = HeartbeatSender(make_task_heartbeat_fn_http(client))
            beat.start()
            try:
                message, context, run, _ = pull_task_input(client)
                context.node_config = {
                    "model": self._member.model,
                    "superlink": self._member.superlink,
                }
                self._state.update(
                    connected=True,
                    away=None,
                    run=str(run.run_id),
                    doing=message.metadata.message_type,
                )
                reply, why = self._answer(message, context)
                push_message(client, reply, context)
                status = SubStatus.FAILED if why else SubStatus.COMPLETED
                push_task_output(client, context, status, why)
                self._note(reply, why)
            finally:
                beat.stop()
        return why

    def _answer(self, message: Message, context: Context) -> tuple[Message, str]:
        client_app.STOPPED.clear()
        done = threading.Event()
        watch = threading.Thread(target=self._watch, args=(context, done), daemon=True)
        watch.start()
        try:
            return client_app.app(message, context), ""
        except Exception as error:  # noqa: BLE001 - whatever the ClientApp raises is the reply
            reply = Message(
                Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, str(error)), reply_to=message
            )
            return reply, str(error)
        finally:
            done.set()
            watch.join()

    def _watch(self, context: Context, done: threading.Event) -> None:
        """Set STOPPED once the run has ended, or the SuperLink was unreachable for too long."""
        private = read_key(self._member.key)
        trusted = self._member.root_certificates
        request = GetRunRequest(node=NodeProto(node_id=context.node_id), run_id=context.run_id)
        answered = time.monotonic()
        with FleetHttpClient.from_server_address(
            self._member.superlink,
            False,
            None if trusted is None else str(trusted),
            interceptors=[
                RuntimeVersionHttpInterceptor(component_name="SuperNode"),
                NodeAuthHttpInterceptor(private, private.public_key()),
            ],
        ) as fleet:
            while not done.wait(WATCH_S):
                why = ""
                try:
                    fleet.GetRun(request)
                    answered = time.monotonic()
                except httpx.HTTPStatusError as error:
                    if error.response.status_code == httpx.codes.UNAUTHORIZED:
                        why = wrong_clock(self._member) or "the SuperLink refuses this node's key"
                    elif error.response.status_code < 500:
                        why = "the run has ended"
                except httpx.TransportError:
                    pass
                away_s = time.monotonic() - answered
                if away_s > self._member.patience_s:
                    why = f"the SuperLink {self._member.superlink} is away for {away_s:.0f} s"
                if why or self._stop.is_set():
                    logger.warning("stopping the round: %s", why or "this node is stopped")
                    client_app.STOPPED.set()
                    return

    def _note(self, reply: Message, why: str) -> None:
        facts = self._state.facts
        sent = 0
        if not why and "metrics" in reply.content.metric_records:
            sent = int(reply.content.metric_records["metrics"].get("bytes", 0))
        self._state.update(
            doing=None,
            last=why or "sent",
            last_at=time.time(),
            replies=facts["replies"] + (not why),
            bytes=facts["bytes"] + sent,
        )

    @contextmanager
    def _runtime(self, guard: object) -> Iterator[RuntimeHttpClient]:
        client = RuntimeHttpClient.from_server_address(
            f"127.0.0.1:{self._node.port}",
            True,
            None,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="honed-flower"), guard],
        )
        # Flower's would ask a proxy of the environment for this device.
        client._client = httpx.Client(timeout=client._client.timeout, trust_env=False)
        try:
            yield client
        finally:
            client.close()


def refusal(member: Membership) -> str | None:
    """Why the daemon would refuse every round, if it answers and would."""
    with Client() as client:
        try:
            Device(client, member.model).require_access()
        except HonedError as error:
            if error.code in REFUSALS:
                return f"the daemon refuses this node: {error}"
            logger.warning("%s", error)
        except Unreachable as error:
            logger.warning("%s", error)
    return None


def drop_abandoned(member: Membership, state: State) -> None:
    """Stop the round of a node that was killed: nobody would fetch its update."""
    round_id = state.facts.get("round_id")
    if round_id is None:
        return
    with Client() as client:
        try:
            Device(client, member.model).stop(round_id)
        except HonedError as error:
            logger.warning("round %s: %s", round_id, error)
        except Unreachable as error:
            logger.warning("round %s was not stopped: %s", round_id, error)
            return
    state.update(round_id=None)
