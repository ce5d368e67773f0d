"""Devices of a simulated federation: a data folder each, with a model, consent and pictures."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "federated"))

from cameras import CAMERAS, Pictures, accuracy, digits, joined, kept_back_by, network, seen_by

from service.jobs.short_tasks import ShortTasks
from service.models.registry import Registry
from service.models.specification import ModelSpec
from service.models.updates import change_model
from service.processes.children import Children
from service.samples.ingest.intake import UploadOptions
from service.samples.ingest.npz_upload import store_npz
from service.settings import Settings
from storage.disk.permissions import OWNER_ONLY_UMASK
from storage.records.jobs import JobState
from storage.records.samples import Split
from storage.store import Store

__all__ = ["accuracy", "folder_of", "kept_back", "make_devices", "outcome_of", "start"]

MODEL, FEDERATION = "digits", "simulation"
PICTURES, FOR_VALIDATION = 140, 28
PERSONALIZE = {"epochs": 2, "learning_rate": 0.001}
MOST_BYTES = 2**30


def folder_of(folder: Path, device: int) -> Path:
    """A device's data folder."""
    return folder / f"device-{device}"


def kept_back() -> Pictures:
    """The pictures of the verdict, by every camera."""
    _, kept = digits()
    return joined([kept_back_by(camera, kept) for camera in range(len(CAMERAS))])


@contextmanager
def opened(folder: Path) -> Iterator[Store]:
    """A data folder, as a daemon opens it: what it writes is for nobody else."""
    os.umask(OWNER_ONLY_UMASK)
    store = Store.open(folder)
    try:
        yield store
    finally:
        store.close()


def make_devices(folder: Path, count: int) -> None:
    """In the folder: the devices, `model.onnx`, and `devices.npz` with what each trains on."""
    model, template = folder / "model.onnx", folder / "template"
    model.write_bytes(network())
    with opened(template) as store:
        asyncio.run(_register(store, model))
    learned, _ = digits()
    trained_on = {}
    for device in range(count):
        seen = seen_by(device, learned, PICTURES)
        shutil.copytree(template, folder_of(folder, device))
        _upload(folder_of(folder, device), seen)
        trained_on[f"x{device}"] = seen.images[FOR_VALIDATION:]
        trained_on[f"label{device}"] = seen.labels[FOR_VALIDATION:]
    np.savez(folder / "devices.npz", **trained_on)


def start(folder: Path) -> dict[str, NDArray[np.float32]]:
    """The weights that all begin with, by name."""
    made = onnx.load(folder / "model.onnx")
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}


def outcome_of(folder: Path, device: int) -> tuple[int, bool]:
    """Of a device that has sent updates, and has got the global model: the bytes of an update, and
    whether its gate let that model in.
    """
    with opened(folder_of(folder, device)) as store:
        model = store.models.get(MODEL)
        made, last = store.versions.list(model.id, 2), store.rounds.newest(model.id)
        assert last is not None, f"device {device} has sent no update"
        assert len(made) == 2, f"device {device} has no version of the global model"
        jobs = store.jobs.counts()
        assert set(jobs) == {JobState.SUCCEEDED}, f"device {device}: {jobs}"
        return last.outcome["bytes"], made[0].promoted


async def _register(store: Store, model: Path) -> None:
    settings, children = Settings(data_dir=store.data_dir), Children(memory_cap_bytes=None)
    spec = ModelSpec(MODEL, "cross_entropy")
    registered = await Registry(store, ShortTasks(store, settings, children)).register(
        spec, model, form="forward"
    )
    change_model(
        *(store, registered),
        hyperparameters={},
        classes=None,
        gate={},
        retention={},
        federation={"allowed": True, "superlink": FEDERATION, "personalize": PERSONALIZE},
    )


def _upload(folder: Path, seen: Pictures) -> None:
    path = folder.with_suffix(".npz")
    parts = {Split.VALIDATION: slice(FOR_VALIDATION), Split.TRAIN: slice(FOR_VALIDATION, None)}
    with opened(folder) as store:
        model = store.models.get(MODEL)
        for split, part in parts.items():
            np.savez(path, x=seen.images[part], label=seen.labels[part])
            options = UploadOptions({"split": split}, allow_duplicates=True)
            store_npz(store, model, path, options, max_bytes=MOST_BYTES)
    path.unlink()
