"""`on_promoted`: the operator's command runs when `latest` moves, and harms nobody."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored import adopt, new_model
from support import DEADLINE_S, until

from service.errors import BadSetting
from service.events import Feed
from service.models.latest import LatestVersions
from service.models.promotion_hook import PromotionHook
from service.settings import load_settings
from storage.store import Store

NOTE = (
    "import json, os, pathlib, sys; path = pathlib.Path(sys.argv[1]);"
    "line = json.dumps({k: v for k, v in os.environ.items() if k.startswith('HONED_')});"
    "file = path.open('a'); print(line, file=file); file.close(); print('noted')"
)
Scenario = Callable[[PromotionHook, Feed], Any]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    store = Store.open(tmp_path / "data")
    for name in ("a", "b"):
        base = adopt(store, b"a model of " + name.encode())
        store.models.add(new_model(name), base_version=base)
    yield store
    store.close()


def play(store: Store, command: list[str], scenario: Scenario, **chosen: Any) -> None:
    async def main() -> None:
        settings = load_settings(data_dir=store.data_dir, on_promoted=command, **chosen)
        feed = Feed(store)
        hook = PromotionHook(store, settings, latest=LatestVersions(store, feed), feed=feed)
        try:
            await asyncio.wait_for(scenario(hook, feed), DEADLINE_S)
        finally:
            await asyncio.wait_for(hook.stop(), DEADLINE_S)

    asyncio.run(main())


def notes(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_the_command_finds_the_version_in_its_environment(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HONED_TOKEN", "secret")
    log = tmp_path / "notes"

    async def scenario(_: PromotionHook, feed: Feed) -> None:
        feed.announce("version.created", "a", {})
        feed.announce("version.promoted", "a", {})
        await until(lambda: notes(log), "the command's note")

    play(store, [sys.executable, "-c", NOTE, str(log)], scenario)

    (found,) = notes(log)
    file = Path(found["HONED_MODEL_FILE"])
    assert (found["HONED_MODEL"], found["HONED_VERSION"]) == ("a", "1")
    assert file.read_bytes() == b"a model of a"
    assert file.name == found["HONED_SHA256"]
    assert "HONED_TOKEN" not in found


def test_one_at_a_time_for_each_model_and_none_is_forgotten(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "running"
    folder.mkdir()
    log = tmp_path / "notes"
    exclusive = (
        "import os, pathlib, time; model = os.environ['HONED_MODEL'];"
        f"mine = pathlib.Path({str(folder)!r}) / model; mine.mkdir();"
        f"file = open({str(log)!r}, 'a'); print(json.dumps(model), file=file); file.close();"
        "time.sleep(0.2); mine.rmdir()"
    )

    async def scenario(hook: PromotionHook, feed: Feed) -> None:
        for _ in range(5):
            feed.announce("version.promoted", "a", {})
        feed.announce("version.rolled_back", "b", {})
        await until(lambda: len(notes(log)) == 2, "both notes")
        feed.announce("version.promoted", "a", {})
        await until(lambda: not hook.busy, "the last command")

    play(store, [sys.executable, "-c", f"import json; {exclusive}"], scenario)

    models = notes(log)
    assert models.count("b") == 1
    assert models.count("a") == 2


def test_a_failure_is_logged_with_its_last_words(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    code = "print('x' * 100_000); print('no space left'); raise SystemExit(3)"

    async def scenario(_: PromotionHook, feed: Feed) -> None:
        feed.announce("version.promoted", "a", {})
        await until(lambda: logged(caplog), "the log to tell")

    play(store, [sys.executable, "-c", code], scenario)

    (record,) = logged(caplog)
    assert record.levelno == logging.ERROR
    assert record.fields["detail"] == "exit code 3"
    assert record.fields["output"].endswith("no space left")
    assert len(record.fields["output"]) <= 4096


def logged(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [record for record in caplog.records if record.message.startswith("hook.")]


def test_a_command_that_hangs_is_killed_with_its_children(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    hang = "import time; time.sleep(600)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hang!r}])"

    async def scenario(_: PromotionHook, feed: Feed) -> None:
        feed.announce("version.promoted", "a", {})
        await until(lambda: logged(caplog), "the log to tell")

    play(store, [sys.executable, "-c", code], scenario, on_promoted_timeout_s=1)

    assert logged(caplog)[0].fields["detail"] == "killed after 1 s"


def test_a_command_that_does_not_exist_is_logged(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(_: PromotionHook, feed: Feed) -> None:
        feed.announce("version.promoted", "a", {})
        await until(lambda: logged(caplog), "the log to tell")

    play(store, ["/nowhere/at/all"], scenario)

    assert "/nowhere/at/all" in logged(caplog)[0].fields["detail"]


def test_stopping_ends_a_running_command(store: Store, tmp_path: Path) -> None:
    log = tmp_path / "notes"
    hang = f"{NOTE}; import time; time.sleep(600)"

    async def scenario(_: PromotionHook, feed: Feed) -> None:
        feed.announce("version.promoted", "a", {})
        await until(lambda: notes(log), "the command's note")

    play(store, [sys.executable, "-c", hang, str(log)], scenario)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sessions of this kind")
def test_a_grandchild_that_holds_the_output_does_not_hold_the_stop(
    store: Store, tmp_path: Path
) -> None:
    log = tmp_path / "notes"
    sleep = "import time; time.sleep(600)"
    leave = f"import subprocess; command = [sys.executable, '-c', {sleep!r}]"
    leave += "; grandchild = subprocess.Popen(command, start_new_session=True)"
    leave += "; pathlib.Path(sys.argv[1] + '.pid').write_text(str(grandchild.pid))"
    pid = log.with_name("notes.pid")

    async def scenario(_: PromotionHook, feed: Feed) -> None:
        feed.announce("version.promoted", "a", {})
        await until(lambda: pid.exists() and pid.read_text(), "the grandchild")

    try:
        play(store, [sys.executable, "-c", f"{NOTE}; {leave}", str(log)], scenario)
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ("systemctl restart 'my app'", ("systemctl", "restart", "my app")),
        ('["sh", "-c", "echo $HONED_MODEL"]', ("sh", "-c", "echo $HONED_MODEL")),
        ("", ()),
    ],
)
def test_the_command_comes_from_a_variable(
    monkeypatch: pytest.MonkeyPatch, given: str, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("HONED_ON_PROMOTED", given)

    assert load_settings().on_promoted == command


def test_the_command_comes_from_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "honed.toml"
    monkeypatch.setenv("HONED_CONFIG", str(file))

    file.write_text('on_promoted = ["cp", "a b", "c"]')
    assert load_settings().on_promoted == ("cp", "a b", "c")
    file.write_text("on_promoted = \"cp 'a b' c\"")
    assert load_settings().on_promoted == ("cp", "a b", "c")
    file.write_text("on_promoted = 3")
    with pytest.raises(BadSetting, match="on_promoted"):
        load_settings()
    monkeypatch.setenv("HONED_ON_PROMOTED", "unclosed 'quote")
    with pytest.raises(BadSetting, match="on_promoted"):
        load_settings()
