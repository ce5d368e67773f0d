"""`honed demo`: a device learns to read what its own camera sees, end to end."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from cli.client import Client, model_path
from cli.commands.jobs.training import watch_job
from cli.commands.versions.fetch import download
from cli.demo import digits, story
from cli.demo.daemon import DaemonProcess, start
from cli.errors import Failure
from cli.signals import interrupts_deferred
from storage.database.codec import dump
from storage.errors import file_size

MODEL = "digits"
SPEC = {"name": MODEL, "loss": "cross_entropy", "output": "logits"}
RECIPE = {
    "epochs": 40,
    "batch_size": 32,
    "learning_rate": 0.002,
    "schedule": "cosine",
    "seed": 0,
    "ignore_policy": True,
}
"""A person waits for the job, so it runs on battery power too."""
PICTURES = 4
DEFAULT_URL = "http://127.0.0.1:8471"


@click.command()
@click.option("--keep", is_flag=True, help="Leave the daemon running, and print its address.")
def demo(keep: bool) -> None:
    """Run an end-to-end example on real data, without a network, in under a minute.

    Starts a daemon of its own in a temporary folder, registers a digit reader that was trained on
    clean digits, uploads 1,000 digits as a mirroring, noisy camera sees them, trains, fetches the
    new version, and reads 397 held-out digits with plain ONNX Runtime.
    """
    story.title("A digit classifier adapts to the pictures of its own camera")
    with ExitStack() as cleanup:
        with interrupts_deferred():
            folder = Path(tempfile.mkdtemp(prefix="honed-demo-"))
            cleanup.callback(shutil.rmtree, folder)
        story.step("Daemon")
        daemon = start(folder, cleanup)
        click.echo(f"{daemon.client.url}, ready in {daemon.ready_s:.1f} s")
        _tell(daemon.client, folder)
        if keep:
            cleanup.pop_all()
    _part(daemon, keep=keep)


def _tell(client: Client, folder: Path) -> None:
    _register(client)
    _upload(client)
    job = _train(client)
    before, after = folder / "version-1.onnx", folder / "latest.onnx"
    _fetch(client, before, after)
    _judge(before, after, version=job["version"])


def _register(client: Client) -> None:
    story.step("Model")
    began = time.monotonic()
    base = digits.folder() / "base.onnx"
    with base.open("rb") as file:
        model = client.ask(
            "POST",
            "/v1/models",
            data={"spec": dump(SPEC)},
            files={"model": (base.name, file, "application/octet-stream")},
        )
    count = model["parameters"]["trainable"]
    click.echo(f"{MODEL}: {count:,} parameters, ready to train in {_since(began)} (version 1)")


def _upload(client: Client) -> None:
    story.step("Samples")
    began = time.monotonic()
    answer = client.ask(
        "POST",
        model_path(MODEL, "samples"),
        content=(digits.folder() / "device.npz").read_bytes(),
        headers={"Content-Type": "application/x-npz"},
    )
    counts = client.get(model_path(MODEL))["samples"]
    click.echo(
        f"{answer['accepted']:,} from the camera in {_since(began)}: "
        f"{counts['train']:,} to learn from, {counts['validation']:,} to validate"
    )


def _train(client: Client) -> dict[str, Any]:
    job = client.post(model_path(MODEL, "jobs"), RECIPE)
    began = time.monotonic()
    story.line("Training", f"job {job['id']}, {RECIPE['epochs']} epochs")
    job = watch_job(client, job, label=f"  {'':{story.LABEL_WIDTH - 1}}")
    if job["state"] != "succeeded":
        raise Failure(f"job {job['id']} {job['state']}: {job['error']}")
    story.line("", f"succeeded in {_since(began)}: version {job['version']}")
    return job


def _fetch(client: Client, before: Path, after: Path) -> None:
    story.step("Fetched")
    download(client, client.get(model_path(MODEL, "versions", 1)), before, show=False)
    latest = client.get(model_path(MODEL, "latest"))
    download(client, latest, after, show=False)
    click.echo(
        f"latest is version {latest['version']}, {file_size(latest['size_bytes'])}, "
        f"sha256 {latest['sha256'][:12]}…"
    )


def _judge(before: Path, after: Path, *, version: int) -> None:
    """Measured outside the daemon, on digits that it has never seen."""
    images, labels = digits.kept_back()
    old, new = (digits.predicted(model, image=images) for model in (before, after))
    click.echo()
    learned = _learned(labels, old, new)
    story.pictures(
        [images[row] for row in learned],
        [f"read {old[row]}, now {new[row]}" for row in learned],
    )
    click.echo()
    click.echo(f"  Read right of {len(labels)} held-out digits, by plain ONNX Runtime:")
    was, became = float((old == labels).mean()), float((new == labels).mean())
    story.share("version 1", was)
    story.share(f"version {version}", became)
    click.echo()
    if became <= was:
        raise Failure("training did not raise the accuracy; please report this")


def _learned(labels: Any, old: Any, new: Any) -> list[int]:
    """Rows that only the new version reads right, each a different digit."""
    rows: dict[int, int] = {}
    for row in ((old != labels) & (new == labels)).nonzero()[0]:
        rows.setdefault(int(labels[row]), int(row))
    return list(rows.values())[:PICTURES]


def _part(daemon: DaemonProcess, *, keep: bool) -> None:
    url = daemon.client.url if keep else DEFAULT_URL
    story.line("Docs", f"{url}/docs")
    story.line("Dashboard", f"{url}/dashboard")
    if keep:
        story.line("Token", str(daemon.token_file))
        story.line("Running", f"process {daemon.process.pid}, until: kill {daemon.process.pid}")
    else:
        story.line("", "once `honed serve` runs, or now with `honed demo --keep`")


def _since(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"
