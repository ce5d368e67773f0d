"""Every operation of the API has its command: all are run, and what they ask is recorded."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import httpx
import numpy as np
import pytest
from boxes import box_model
from click.testing import CliRunner
from masks import PREPROCESS as RGB
from masks import mask_model, png, scene
from pictures import PREPROCESS, image_model, photo
from support import Served, wait_until
from texts import decoder, tokenizer
from vendors import Vendor

from cli.demo import digits
from cli.main import honed
from cli.reference import walk

Operation = tuple[str, str]
V2 = "the Open Inference Protocol, for its own clients; `honed predict` asks …/predict"
VERSION_V2 = "/v2/models/{name}/versions/{number}"
FEDERATION = "the program of a federation's server asks it; docs/federated.md"
EDITS = """
import pathlib, re, sys
file = pathlib.Path(sys.argv[1])
file.write_text(re.sub("(?m)^nice = .*", "nice = 7", file.read_text()))
"""
WITHOUT_COMMAND: dict[Operation, str] = {
    ("GET", "/metrics"): "for Prometheus; `honed status`, `device` and `jobs` show the same",
    ("PUT", "/v1/device/input"): "`honed watch-input` sends it, without a token, on Windows alone",
    ("POST", "/v1/sign-in"): "the console sends the code of `honed dashboard`",
    ("GET", "/v1/models/{name}/parameters"): FEDERATION,
    ("PUT", "/v1/models/{name}/parameters"): FEDERATION,
    ("POST", "/v1/models/{name}/evaluate"): FEDERATION,
    ("POST", "/v1/models/{name}/rounds"): FEDERATION,
    ("GET", "/v1/rounds/{round_id}"): FEDERATION,
    ("DELETE", "/v1/rounds/{round_id}"): FEDERATION,
    ("GET", "/v1/rounds/{round_id}/update"): FEDERATION,
    ("POST", "/v1/completions"): "OpenAI's form of …/complete, for its own clients",
    **{("GET", f"/v2{path}"): V2 for path in ("", "/health/live", "/health/ready")},
    **{("GET", f"/v2/models/{{name}}{path}"): V2 for path in ("", "/ready")},
    **{("GET", f"{VERSION_V2}{path}"): V2 for path in ("", "/ready")},
    **{("POST", f"{model}/infer"): V2 for model in ("/v2/models/{name}", VERSION_V2)},
}
"""Operations that no command calls, and why."""

NOT_ASKING = (
    {"artifacts", "demo", "restore", "serve", "sign", "watch-input"}
    | {f"service {what}" for what in ("install", "run", "status", "uninstall")}
    | {"federate join", "federate leave"}
)
"""Commands that ask no daemon, or one of their own, or install what is tested elsewhere."""

WITHOUT_JSON = {"dashboard", "demo", "serve", "watch-input", "federate join", "federate leave"} | {
    f"service {what}" for what in ("install", "run", "uninstall")
}
"""Commands that run until they are stopped, or tell a person what they do."""

SESSION = """
status
system
device
device --history
top
models check {base}
models add {base} --name pets --loss cross_entropy
models add {out}/picky.onnx --loss cross_entropy --class dark --class bright --preprocess {image}
models add {out}/words.onnx --loss causal_lm --preprocess {text} --tokenizer {out}/tokenizer.json
models tokenizer words -o {out}/fetched.json
models list
models show pets
models set pets hyperparameters.batch_size=16
models follow pets oci://127.0.0.1:9/team/pets:stable --key {out}/vendor.key.pub
models follow pets
models unfollow pets
gate show pets
gate set pets mode=always
quota show pets
quota set pets max_samples=5000
retention show pets
retention set pets max_versions=9
federation show pets
federation set pets allowed=true superlink=fl.example:9092 epsilon=8
federate status
samples add picky {out}/photo.png --label dark
samples show picky 1 --thumbnail {out}/small.png
samples add pets {out}/samples.npz
samples add pets {out}/one.json
samples list pets
samples show pets 2 -o {out}/sample.npz
samples stats pets
samples duplicates pets
samples label pets 3 3
samples label pets one 4 --by-key
samples delete pets 4 --yes
samples delete pets --label 9 --yes
archive export pets -o {out}/pets.zip
archive import pets {out}/pets.zip
base-set add pets --first 20
base-set show pets
base-set remove pets
reference freeze pets
reference show pets
reference remove pets
train pets --max-steps 100000 --now
until 1 running
jobs pause 1
until 1 paused
jobs resume 1
jobs cancel 1
train pets --epochs 1 --now --watch
jobs list
jobs show 2
jobs metrics 2
jobs log 2
versions list pets
versions show pets 2
versions samples pets 2
variants pets 2
compare pets 1 2
fetch pets -o {out}/model.onnx
fetch pets -o {out}/model.onnx --wait 1
fetch pets --version 1 --variant ort -o {out}/model.ort
predict pets {out}/inputs.npz
predict pets {out}/inputs.csv
complete words "a" --suggestions 3
complete words "a" --max-tokens 2 --temperature 0 --stop "no such text"
samples suspects pets
drift pets
aliases set pets stable 2
aliases list pets
aliases show pets stable
aliases remove pets stable
promote pets 1
promote pets 2
rollback pets
release pets
checkpoints list pets
checkpoints pin 1
checkpoints show 1
checkpoints download 2 -o {out}/checkpoint
triggers add pets --new-samples 9000
triggers list pets
triggers show pets 1
triggers disable pets 1
triggers enable pets 1
triggers remove pets 1
classes list picky
classes add picky dog
classes rename picky dog wolf
classes add picky fox
classes merge picky fox wolf
classes remove picky wolf
policy show
policy check nice=5
policy set nice=5
policy edit
policy reset
snooze 5
snooze --off
pause
resume
tokens create camera --scope predict
tokens list
tokens show 1
tokens change camera --uploads 2
tokens rotate camera
tokens revoke camera
audit
audit --verify
audit --export {out}/audit.jsonl
dashboard --print
events --last 5
events --after 1
backup -o {out}/backup.zip
doctor --verify
models add {out}/masked.onnx --loss cross_entropy --preprocess {rgb}
samples add masked {out}/scenes
samples show masked 303 --mask {out}/mask.png
models add {out}/boxed.onnx --loss detection --preprocess {rgb}
samples export boxed {out}/boxes --as coco
models upgrade pets {base} --check
models upgrade pets {base} --epochs 1 --running cancel
models base pets
models drop-upgrade pets --yes
checkpoints remove 1
models remove pets --yes
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that the session sends, and where it writes."""
    folder = tmp_path_factory.mktemp("session")
    images, labels = digits.kept_back()
    np.savez(folder / "samples.npz", image=images[:300], label=labels[:300])
    np.savez(folder / "inputs.npz", image=images[:3])
    columns = ",".join(f"image[{number}]" for number in range(images[0].size))
    rows = images[:3].reshape(3, -1)
    np.savetxt(folder / "inputs.csv", rows, delimiter=",", header=columns, comments="")
    one = {"inputs": {"image": images[300].tolist()}, "label": int(labels[300]), "key": "one"}
    (folder / "one.json").write_text(json.dumps(one))
    (folder / "picky.onnx").write_bytes(image_model())
    (folder / "words.onnx").write_bytes(decoder(64))
    (folder / "tokenizer.json").write_bytes(tokenizer(["a cat sat on a mat"] * 9))
    (folder / "vendor.key.pub").write_text(Vendor().pem)
    (folder / "photo.png").write_bytes(photo(60, 1, kind="PNG"))
    (folder / "masked.onnx").write_bytes(mask_model())
    (folder / "boxed.onnx").write_bytes(box_model())
    for name, pixels in zip(("images", "masks"), scene(1), strict=True):
        (folder / "scenes" / name).mkdir(parents=True)
        (folder / "scenes" / name / "1.png").write_bytes(png(pixels))
    return folder


@pytest.fixture(scope="module")
def session(folder: Path, served: Served) -> Iterator[tuple[set[Operation], set[Operation]]]:
    """The operations that the session's commands asked for, and all that OpenAPI has."""
    given = {
        "out": folder.as_posix(),
        "base": (digits.folder() / "base.onnx").as_posix(),
        "image": shlex.quote(json.dumps(PREPROCESS)),
        "rgb": shlex.quote(json.dumps(RGB)),
        "text": shlex.quote('{"kind": "text", "max_tokens": 32}'),
    }
    with pytest.MonkeyPatch.context() as patch:
        known = operations(served.http.get("/openapi.json").json())
        patch.setenv("HONED_URL", served.url)
        patch.setenv("HONED_TOKEN", served.token)
        patch.setenv("EDITOR", shlex.join([sys.executable, "-c", EDITS]))
        patch.delenv("VISUAL", raising=False)
        asked: set[Operation] = set()
        for line in SESSION.strip().splitlines():
            if line.startswith("until "):
                _, job_id, state = line.split()
                wait_until(partial(has_trained, served, job_id, state), line)
            else:
                asked |= requests_of(shlex.split(line.format_map(given)))
        yield {matching(method, path, known) for method, path in asked}, set(known)


def has_trained(served: Served, job_id: str, state: str) -> bool:
    job = served.job(int(job_id))
    return bool(job["state"] == state and job["progress"]["step"])


def requests_of(words: list[str]) -> set[Operation]:
    """Method and path of all that a command asks; it must succeed."""
    asked: set[Operation] = set()
    send = httpx.Client.send

    def recorded(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        asked.add((request.method.replace("HEAD", "GET"), request.url.path))
        return send(self, request, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx.Client, "send", recorded)
        done = CliRunner().invoke(honed, words, catch_exceptions=False)
    assert done.exit_code == 0, f"{shlex.join(words)}: {done.output}"
    return asked


def operations(description: dict[str, Any]) -> dict[Operation, re.Pattern[str]]:
    """OpenAPI's operations; those without parameters first, which others would match as well."""
    found = {
        (method.upper(), template): re.compile(re.sub(r"\{\w+\}", "[^/]+", template))
        for template, methods in description["paths"].items()
        for method in methods
    }
    return dict(sorted(found.items(), key=lambda each: each[0][1].count("{")))


def matching(method: str, path: str, known: dict[Operation, re.Pattern[str]]) -> Operation:
    """The operation that a request asked for."""
    return next(
        each for each, pattern in known.items() if each[0] == method and pattern.fullmatch(path)
    )


def test_every_operation_has_a_command_or_a_reason_to_have_none(
    session: tuple[set[Operation], set[Operation]],
) -> None:
    asked, known = session
    missing = known - asked - set(WITHOUT_COMMAND)
    assert not missing, "give it a command and a line in SESSION, or a reason in WITHOUT_COMMAND"
    assert not set(WITHOUT_COMMAND) & asked, "it has a command"
    assert set(WITHOUT_COMMAND) <= known, "it is gone"


def test_every_command_that_asks_the_daemon_is_in_the_session() -> None:
    lines = [f"{line} " for line in SESSION.strip().splitlines()]
    unused = {
        words
        for path, command in walk("honed", honed)
        if not isinstance(command, click.Group)
        and not any(line.startswith(f"{(words := path.removeprefix('honed '))} ") for line in lines)
    }
    assert unused == NOT_ASKING


def test_every_command_that_prints_an_answer_has_json() -> None:
    without = {
        path.removeprefix("honed ")
        for path, command in walk("honed", honed)
        if not isinstance(command, click.Group)
        and not any("--json" in parameter.opts for parameter in command.params)
    }
    assert without == WITHOUT_JSON
