from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from cli.commands.tokens import _LIMITS
from storage.records.access import Limits

Run = Callable[..., Any]


def test_a_token_is_made_used_listed_rotated_and_revoked(honed: Run) -> None:
    made = honed("tokens", "create", "camera", "--scope", "models:read", "--expires", "30d")
    assert made.returncode == 0, made.stderr
    secret = made.stdout.strip()
    assert re.fullmatch(r"hone_\w{49}", secret)
    assert "camera): models:read on all models" in made.stderr
    assert honed("models", "list", HONED_TOKEN=secret).returncode == 0
    refused = honed("policy", "show", HONED_TOKEN=secret)
    assert (refused.returncode, "the scope device:policy" in refused.stderr) == (1, True)

    header, *rows = honed("tokens", "list").stdout.splitlines()
    assert header.split() == [
        "ID",
        "NAME",
        "SCOPES",
        "MODELS",
        "LAST",
        "USED",
        "EXPIRES",
        "REVOKED",
    ]
    (row,) = [row for row in rows if "camera" in row]
    assert secret not in row

    new = honed("tokens", "rotate", "camera").stdout.strip()
    assert honed("models", "list", HONED_TOKEN=secret).returncode == 1
    assert honed("models", "list", HONED_TOKEN=new).returncode == 0
    assert honed("tokens", "revoke", "camera").returncode == 0
    revoked = honed("models", "list", HONED_TOKEN=new)
    assert "(camera) was revoked" in revoked.stderr
    assert "camera" not in honed("tokens", "list").stdout
    assert "camera" in honed("tokens", "list", "--all").stdout
    assert "no valid token is named 'camera'" in honed("tokens", "rotate", "camera").stderr


def test_models_limits_and_end_are_taken(honed: Run) -> None:
    end = "2031-05-01T12:00:00+02:00"
    made = honed(
        *("tokens", "create", "door", "--scope", "predict", "--scope", "samples:write"),
        *("--model", "pets", "--model", "faces", "--expires", end, "--json"),
        *("--uploads", 2, "--predictions-per-second", 0.5),
    )
    assert made.returncode == 0, made.stderr
    token = json.loads(made.stdout)
    assert token["scopes"] == ["samples:write", "predict"]
    assert token["models"] == ["faces", "pets"]
    assert (token["limits"]["uploads"], token["limits"]["predictions_per_second"]) == (2, 0.5)
    assert datetime.fromisoformat(token["expires_at"].replace("Z", "+00:00")) == (
        datetime(2031, 5, 1, 10, tzinfo=timezone.utc)
    )
    assert honed("tokens", "revoke", token["id"]).returncode == 0


def test_a_time_from_now_is_counted(honed: Run) -> None:
    made = honed("tokens", "create", "soon", "--scope", "train", "--expires", "12h", "--json")
    token = json.loads(made.stdout)
    end = datetime.fromisoformat(token["expires_at"].replace("Z", "+00:00"))
    left = end - datetime.now(timezone.utc)
    assert timedelta(hours=11, minutes=58) < left <= timedelta(hours=12)
    honed("tokens", "revoke", "soon")


@pytest.mark.parametrize(
    ("option", "told"), [(("--scope", "root"), "'root' is not one of"), ((), "--scope")]
)
def test_wrong_usage_is_told(honed: Run, option: tuple[str, ...], told: str) -> None:
    wrong = honed("tokens", "create", "x", *option)
    assert (wrong.returncode, told in wrong.stderr) == (2, True)
    end = honed("tokens", "create", "x", "--scope", "train", "--expires", "soon")
    assert "neither like 30d, 12h" in end.stderr


def test_the_audit_log_is_printed_and_filtered(honed: Run) -> None:
    assert honed("snooze", "1").returncode == 0
    assert honed("snooze", "--off").returncode in (0, 2)
    header, *rows = honed(
        "audit", "--kind", "change", "--who", "admin", "--since", "1h"
    ).stdout.splitlines()
    assert header.split() == ["WHEN", "KIND", "WHO", "FROM", "ACTION", "PATH", "CODE", "COUNT"]
    assert any("snooze" in row and "127.0.0.1" in row for row in rows)
    (newest,) = json.loads(honed("audit", "--limit", 1, "--json").stdout)
    assert newest["action"] in ("snooze", "end_snooze")
    assert json.loads(honed("audit", "--until", "3650d", "--json").stdout) == []


def test_every_limit_has_an_option() -> None:
    assert set(_LIMITS) == set(Limits.__slots__)


def test_every_limit_stands_in_the_documentation() -> None:
    page = (Path(__file__).parents[3] / "docs/tokens.md").read_text("utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \| `--([\w-]+)` \|", page, re.M))
    assert told == {name: name.replace("_", "-") for name in _LIMITS}
