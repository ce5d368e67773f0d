"""Three daemons that learn digits together: FedAvg over the routes, averaged by the test itself."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from federated import Device, Tensors
from support import Served, mlp

from service.training.updates.compression import read_update

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.csv.gz"
SIZES = (64, 64, 10)
ROUNDS, EPOCHS, RATE = 3, 5, 0.006
KEPT_BACK = 397
OWN_SHARE = 0.9
"""Of a digit's pictures, those that the device gets which sees it mostly."""


def pictures() -> tuple[np.ndarray, np.ndarray]:
    """1,797 digits of 8x8, shuffled."""
    rows = np.loadtxt(DIGITS, delimiter=",", dtype=np.int64)
    order = np.random.default_rng(0).permutation(len(rows))
    return (rows[order, :64] / 16).astype(np.float32), rows[order, 64]


def shared_out(labels: np.ndarray, devices: int) -> list[np.ndarray]:
    """Places by device: each sees some digits mostly."""
    draws = np.random.default_rng(1)
    home = labels * devices // 10
    strays = draws.random(len(labels)) > OWN_SHARE
    home[strays] = draws.integers(0, devices, strays.sum())
    return [np.flatnonzero(home == device) for device in range(devices)]


def accuracy(parameters: Tensors, images: np.ndarray, labels: np.ndarray) -> float:
    hidden = np.maximum(images @ parameters["layer0.weight"] + parameters["layer0.bias"], 0)
    logits = hidden @ parameters["layer1.weight"] + parameters["layer1.bias"]
    return float((logits.argmax(axis=1) == labels).mean())


def one_round(devices: list[Device], parameters: Tensors, **spec: object) -> Tensors:
    """FedAvg: McMahan et al. (2017)."""
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda each: each.round(parameters, **spec), devices))
    assert [each["state"] for each in done] == ["succeeded"] * len(devices), done
    total = sum(each["samples"] for each in done)
    updates = [fetched(device, each["id"]) for device, each in zip(devices, done, strict=True)]
    return {
        name: values
        + sum(
            update[name] * np.float32(each["samples"] / total)
            for update, each in zip(updates, done, strict=True)
        )
        for name, values in parameters.items()
    }


def fetched(device: Device, round_id: int) -> Tensors:
    content = device.http.get(f"/v1/rounds/{round_id}/update").raise_for_status().content
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(content)
        return read_update(Path(file.name))


def learn(devices: list[Device], *, first: int, **spec: object) -> Tensors:
    """The global parameters after all rounds. first: number of the first."""
    together = devices[0].parameters(version=1)
    for number in range(ROUNDS):
        asked = {"epochs": EPOCHS, "learning_rate": RATE, "seed": number, **spec}
        together = one_round(devices, together, round=first + number, **asked)
    return together


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Iterator[list[Device]]:
    images, labels = (array[KEPT_BACK:] for array in pictures())
    made = []
    for places in shared_out(labels, 3):
        served = Served(tmp_path_factory.mktemp("device") / "data", database=database)
        served.register("digits", mlp(*SIZES))
        served.upload("digits", x=images[places], label=labels[places]).raise_for_status()
        made.append(Device(served, "digits"))
        made[-1].allow().raise_for_status()
    yield made
    for each in made:
        each.served.stop()


@pytest.fixture(scope="module")
def together(devices: list[Device]) -> Tensors:
    return learn(devices, first=0)


def test_together_they_read_what_none_reads_alone(devices: list[Device], together: Tensors) -> None:
    images, labels = (array[:KEPT_BACK] for array in pictures())
    learned = accuracy(together, images, labels)
    alone = []
    for device in devices:
        device.served.train("digits", epochs=ROUNDS * EPOCHS, learning_rate=RATE, seed=0)
        alone.append(accuracy(device.parameters(), images, labels))
        job = device.served.wait_for_job(device.send(together).json()["id"])
        assert job["state"] == "succeeded", job
    told = f"together {learned:.3f}, alone {alone}"
    assert learned > 0.9, told
    assert learned > max(alone) + 0.05, told


def test_in_a_quarter_of_the_bytes_they_learn_the_same(
    devices: list[Device], together: Tensors
) -> None:
    images, labels = (array[:KEPT_BACK] for array in pictures())
    packed = learn(devices, first=100, compression="int8")
    apart = accuracy(packed, images, labels) - accuracy(together, images, labels)
    assert abs(apart) <= 0.01, apart
