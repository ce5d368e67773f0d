from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

from daemon_process import end
from support import DEADLINE_S

from cli.client import Client, model_path
from cli.commands.device.events import newest_id
from cli.demo.daemon import DaemonProcess
from service.processes.interpreter import WITHOUT_CONSOLE


def test_the_last_events_are_printed_and_the_command_ends(
    honed: Callable[..., Any], add_model: Callable[..., str]
) -> None:
    name = add_model(samples=20)
    lines = honed("events", "--model", name, "--json").stdout.splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["model.created", "samples.added"]
    told = honed("events", "--model", name, "--type", "samples.", "--last", 1).stdout
    assert f"samples.added {name}  accepted=20" in told
    assert len(told.splitlines()) == 1


def test_events_after_one_are_listed_and_those_that_are_lost_are_told(
    honed: Callable[..., Any], add_model: Callable[..., str], daemon: DaemonProcess
) -> None:
    name = add_model(samples=20)

    def listed(*options: object) -> list[dict[str, Any]]:
        lines = honed("events", "--json", *options).stdout.splitlines()
        return [json.loads(line) for line in lines]

    created, added = (event["id"] for event in listed("--model", name))
    assert [event["id"] for event in listed("--model", name, "--after", created)] == [added]
    assert listed("--model", name, "--after", added) == []
    with closing(sqlite3.connect(daemon.token_file.with_name("hone.db"))) as database, database:
        database.execute("DELETE FROM events WHERE id = ?", [created])
    lost, *kept = listed("--after", created - 1)
    assert (lost["type"], lost["data"]["after"]) == ("events.lost", created - 1)
    assert kept[0]["id"] == created + 1


def test_events_are_followed_until_the_command_is_stopped(
    client: Client, variables: dict[str, str], add_model: Callable[..., str]
) -> None:
    name = add_model()
    after = ("--after", str(newest_id(client)))
    command = [sys.executable, "-m", "honed", "events", "--follow", *after, "--type", "alias."]
    environment = {**os.environ, **variables}
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        creationflags=WITHOUT_CONSOLE,
    ) as following:
        assert following.stdout is not None
        for alias in ("first", "second"):
            client.request("PUT", model_path(name, "aliases", alias), json={"version": 1})
            line = following.stdout.readline()
            assert f"alias.moved {name}" in line
            assert alias in line
        end(following, signal.SIGINT)
        assert following.wait(DEADLINE_S) == 0


def test_a_token_for_one_model_is_told_of_it_and_the_list_ends(
    honed: Callable[..., Any], add_model: Callable[..., str], client: Client
) -> None:
    name = add_model()
    body = {"name": f"{name}-reader"[:60], "scopes": ["models:read"], "models": [name]}
    token = client.post("/v1/tokens", body)
    lines = honed("events", "--json", HONED_TOKEN=token["secret"]).stdout.splitlines()
    assert {json.loads(line)["model"] for line in lines} == {name}
