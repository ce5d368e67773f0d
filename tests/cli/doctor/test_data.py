"""`honed doctor --verify` and `--repair`, with real bit flips under a real daemon."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import Served, blobs, mlp

from cli import main
from cli.client import Client
from cli.doctor.data import TO_GIVE_UP, TO_PUT_BACK
from cli.doctor.doctor import check_data
from storage.disk.permissions import open_to_others

Honed = Callable[..., Any]


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.fixture
def honed(clean_environment: None, serve: Callable[..., Served]) -> Honed:
    """Run a command beside a daemon, or without one, in the same data folder."""
    del clean_environment

    def run(served: Served, *arguments: str, asked: str | None = None) -> Any:
        variables = {
            "HONED_URL": served.url,
            "HONED_TOKEN": served.token,
            "HONED_DATA_DIR": str(served.data_dir),
        }
        return CliRunner().invoke(main.honed, arguments, env=variables, input=asked)

    return run


def data_line(output: str) -> str:
    return next(line for line in output.splitlines() if line[6:].startswith("data  "))


def test_what_is_damaged_is_found_told_and_given_up(
    serve: Callable[..., Served], honed: Honed
) -> None:
    served = serve()
    served.register("m", mlp(8, 8, 2))
    served.upload("m", split="train", **blobs(60, 8, 2))
    served.train("m", epochs=1)
    # Read in several steps, of which the last finds the damage.
    served.register("large", mlp(2048, 2, 2))
    served.upload("large", split="train", **blobs(1200, 2048, 2))

    sound = honed(served, "doctor", "--verify")
    assert sound.exit_code == 0, sound.output
    assert data_line(sound.output).startswith("ok")
    assert "nothing is damaged" in data_line(sound.output)
    assert served.http.get("/v1/verification").json()["verified_at"] is not None

    flip(served.data_dir / "packs" / "2" / "1.pack", at=-1)
    found = honed(served, "doctor", "--verify")
    assert found.exit_code == 1
    assert "damaged and set aside: 1 sample of large" in data_line(found.output)
    assert TO_GIVE_UP in found.output
    (warned,) = check_data(Client(url=served.url, token=served.token))
    assert (warned.status, warned.remedy) == ("warn", TO_GIVE_UP)

    refused = honed(served, "doctor", "--repair", "--yes")
    assert refused.exit_code == 1
    assert f"in use by process {served.process.pid}; stop that daemon" in refused.output
    served.stop()

    kept = honed(served, "doctor", "--repair", asked="n\n")
    assert kept.exit_code == 1
    assert "1 sample of large" in data_line(kept.stdout)
    assert "1 sample of large\nDelete what is damaged?" in kept.stderr
    repaired = honed(served, "doctor", "--repair", "--yes", "--json")
    assert repaired.exit_code == 0, repaired.output
    assert json.loads(repaired.stdout)[0]["detail"] == "deleted 1 sample"

    again = serve()
    assert again.http.get("/v1/models/large").json()["samples"]["train"] == 1199
    assert again.tokenless.get("/readyz").json()["damaged"] is None
    assert data_line(honed(again, "doctor", "--verify").output).startswith("ok")
    assert again.train("m", epochs=1)["state"] == "succeeded"


def test_a_repair_finds_damage_itself_and_says_what_it_cannot_give_up(
    serve: Callable[..., Served], honed: Honed
) -> None:
    served = serve()
    served.register("m", mlp(8, 8, 2))
    served.upload("m", split="train", **blobs(60, 8, 2))
    sha256 = served.http.get("/v1/models/m/versions/1").json()["sha256"]
    served.stop()
    base = next(served.data_dir.glob(f"files/**/{sha256}*"))
    flip(served.data_dir / "packs" / "1" / "1.pack", at=40)
    flip(base, at=40)

    half = honed(served, "doctor", "--repair", "--yes")
    assert half.exit_code == 1
    assert "deleted 1 sample" in half.output
    assert "m version 1" in data_line(half.output)
    assert TO_PUT_BACK in half.output

    flip(base, at=40)
    whole = honed(served, "doctor", "--repair", "--yes")
    assert whole.exit_code == 0, whole.output
    assert "all of it was read, and nothing is damaged" in data_line(whole.output)
    assert list(open_to_others(served.data_dir)) == []


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives folders away"
)
def test_the_data_of_another_user_are_not_repaired(
    serve: Callable[..., Served], honed: Honed
) -> None:
    served = serve()
    served.stop()
    os.chown(served.data_dir / "hone.db", 4242, -1)
    refused = honed(served, "doctor", "--repair", "--yes")
    assert refused.exit_code == 1
    assert "belongs to the user with id 4242; repair it as that user" in refused.output


def test_a_data_folder_that_is_not_there_is_not_made(
    serve: Callable[..., Served], honed: Honed, tmp_path: Path
) -> None:
    served = serve()
    served.stop()
    unread = honed(served, "doctor", "--verify")
    assert unread.exit_code == 1
    assert "nothing was read: the daemon does not run" in data_line(unread.output)
    served.data_dir = tmp_path / "nowhere"
    missing = honed(served, "doctor", "--repair")
    assert missing.exit_code == 1
    assert "holds no data" in missing.output
    assert not served.data_dir.exists()
