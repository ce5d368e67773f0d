"""Eight devices with a camera each learn to read digits together, with trouble on the way.

    python examples/federated/run.py --environment .venv-flower

--environment: where honed-flower is installed; `make .venv-flower/.installed` makes it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cameras import accuracy, digits, joined, kept_back_by, network, seen_by
from device import MODEL, PLUGGED, UNPLUGGED, Device
from processes import wait_for
from superlink import SuperLink

ALONE = "alone"
"""The same model, which learns from the device's own pictures only."""
HERE = Path(__file__).parent
DEVICES, PICTURES, ROUNDS = 8, 400, 10
"""Pictures: of each device."""
ROUND_TIMEOUT_S, DEADLINE_S = 900, 600
"""Nothing waits for them but what has gone wrong."""
SHORT_ROUND_TIMEOUT_S, SHORT_DEADLINE_S = 90, 60
"""Of the rounds in which something happens, which end when they pass."""
EPOCHS, RATE, BATCH = 8, 0.003, 32
PERSONALIZE = {"epochs": 2, "learning_rate": 0.0003}
"""At a tenth of a round's rate: at 0.001 one device came out worse than alone, by one picture."""
CLIP_NORM = 4.0
"""The server's: longer than an honest update but the first."""
NOISE = {"clip_norm": 0.5, "noise_multiplier": 2.25}
"""Ten rounds of it spend an epsilon below 8 for delta 1e-5."""
UNPLUGGED_ONE, KILLED_ONE, LYING_ONE = 3, 5, 7
LONG = 300
"""Epochs of the rounds in which something happens, so that there is a middle to happen in."""


@dataclass
class Report:
    """What came of it: accuracies by what was learned how, and facts."""

    accuracy: dict[str, float] = field(default_factory=dict)
    devices: list[dict[str, float]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


class Example:
    """The federation: its machines, and what is measured on them."""

    def __init__(self, folder: Path, environment: Path) -> None:
        self.report = Report()
        self._folder = folder
        self._environment = environment
        self._start = folder / "digits.onnx"
        self._start.write_bytes(network())
        learned, kept = digits()
        self._seen = [seen_by(number, learned, PICTURES) for number in range(DEVICES)]
        self._kept = [kept_back_by(number, kept) for number in range(DEVICES)]
        self.superlink = SuperLink(folder, environment)
        self.devices: list[Device] = []

    def set_up(self) -> None:
        """Daemons with pictures, consent and a node each."""
        for number, seen in enumerate(self._seen):
            device = Device(self._folder / f"device-{number}")
            self.devices.append(device)
            for name in (MODEL, ALONE):
                device.register(name, network())
                device.upload(name, seen.images, seen.labels)
            device.allow(self.superlink.address, personalize=PERSONALIZE)
            self.superlink.register(device.key(self.superlink))
            device.join(self.superlink)

    def learn_apart(self) -> None:
        """Each device by itself, and one that has all pictures; as many epochs as together."""
        course = {"epochs": ROUNDS * EPOCHS, "learning_rate": RATE, "batch_size": BATCH, "seed": 0}
        place, everything = Device(self._folder / "one-place"), joined(self._seen)
        try:
            place.register(ALONE, network())
            place.upload(ALONE, everything.images, everything.labels)
            learners = [*self.devices, place]
            jobs = [each.http.post(f"/v1/models/{ALONE}/jobs", json=course) for each in learners]
            for learner, answer in zip(learners, jobs, strict=True):
                assert learner.finish(answer.json()["id"])["state"] == "succeeded"
            *own, of_all = [learner.model(ALONE) for learner in learners]
        finally:
            place.stop()
        self.report.accuracy["all pictures in one place"] = self._on_all(of_all)
        self.report.devices = [
            {"alone, own camera": accuracy(model, kept), "alone, all cameras": self._on_all(model)}
            for model, kept in zip(own, self._kept, strict=True)
        ]

    def learn_together(self, name: str, **settings: object) -> None:
        """A run of the federation; the accuracy of its global model on all cameras."""
        began = time.monotonic()
        run, made = self._begin(name, **settings)
        ended = self.superlink.finish(run)
        if ended != "finished:completed":
            raise RuntimeError(f"{name}: {ended}; {self.superlink.program.log} says why")
        reached = self._on_all(made.read_bytes())
        seconds = round(time.monotonic() - began)
        self.report.accuracy[name] = reached
        self.report.facts[f"{name}: seconds"] = seconds
        print(f"{name}: {reached:.3f} in {seconds} s", flush=True)

    def personalize(self) -> None:
        """What apps on each device have once the global model has passed its gate."""
        for device in self.devices:
            job = device.finish(wait_for(device.arrival, "the global model"))
            assert job["state"] == "succeeded", job
        for device, kept, shown in zip(self.devices, self._kept, self.report.devices, strict=True):
            shown["together, personalized, own camera"] = accuracy(device.model(MODEL), kept)

    def lie(self) -> None:
        """From now on one device sends ten times the norm."""
        python = str(self._environment / "bin" / "python")
        liar = self.devices[LYING_ONE]
        assert liar.node is not None
        liar.node.stop()
        liar.join(self.superlink, python, str(HERE / "liar.py"))

    def survive(self) -> None:
        """Two long rounds: in the first one device is unplugged, and another one killed."""
        unplugged, killed = self.devices[UNPLUGGED_ONE], self.devices[KILLED_ONE]
        spent = [device.rounds_sent() for device in self.devices]
        run, made = self._begin(
            "trouble",
            rounds=2,
            nodes=len(self.devices) - 2,
            round_timeout=SHORT_ROUND_TIMEOUT_S,
            deadline_seconds=SHORT_DEADLINE_S,
            epochs=LONG,
        )
        wait_for(unplugged.is_stepping, "the round of the device that is unplugged")
        unplugged.power(UNPLUGGED)
        wait_for(killed.is_stepping, "the round of the device that is killed")
        killed.kill()
        ended = self.superlink.finish(run)
        reached = self._on_all(made.read_bytes())
        self.report.accuracy["one unplugged, one killed, 2 rounds"] = reached
        unplugged.power(PLUGGED)
        killed.start()
        killed.join(self.superlink)
        wait_for(lambda: killed.left_over() == 0, "the killed device's round to be stopped")
        self.report.facts["one unplugged, one killed: the run"] = ended
        sent = [now.rounds_sent() - before for now, before in zip(self.devices, spent, strict=True)]
        self.report.facts["one unplugged, one killed: updates made by device"] = sent

    def epsilon(self) -> float:
        """The most that a device has spent."""
        return max(device.federation()["spent"]["epsilon"] for device in self.devices)

    def stop(self) -> None:
        """All machines."""
        for device in self.devices:
            device.stop()
        self.superlink.program.stop()

    def _begin(self, name: str, **settings: object) -> tuple[str, Path]:
        """A run of the federation: its id, and the file of its global model."""
        output = self._folder / "runs" / name.replace(" ", "-").replace(",", "")
        asked = {
            "model": str(self._start),
            "output": str(output),
            "rounds": ROUNDS,
            "nodes": len(self.devices),
            "round_timeout": ROUND_TIMEOUT_S,
            "deadline_seconds": DEADLINE_S,
            "epochs": EPOCHS,
            "learning_rate": RATE,
            "batch_size": BATCH,
            "deliver": "never",
            **settings,
        }
        return self.superlink.submit(**asked), output / "global.onnx"

    def _on_all(self, model: bytes) -> float:
        return accuracy(model, joined(self._kept))


def tell(report: Report) -> str:
    """Tables."""
    lines = [f"{value:8.3f}  {name}" for name, value in report.accuracy.items()]
    names = list(report.devices[0]) if report.devices else []
    lines += ["", "device  " + "  ".join(names)]
    lines += [
        f"{number:6}  " + "  ".join(f"{shown[name]:{len(name)}.3f}" for name in names)
        for number, shown in enumerate(report.devices)
    ]
    lines += ["", *(f"{name}: {value}" for name, value in report.facts.items())]
    return "\n".join(lines)


def run(example: Example) -> Report:
    """Everything, one after the other."""
    example.set_up()
    example.learn_apart()
    # First: what a device spends has no bound once it has made an update without noise.
    example.learn_together("fedavg with noise", **NOISE)
    example.report.facts["fedavg with noise: epsilon"] = round(example.epsilon(), 2)
    clip = {"server_clip_norm": CLIP_NORM}
    example.learn_together("fedavg", deliver="end", **clip)
    example.personalize()
    example.survive()
    example.learn_together("fedmedian", strategy="fedmedian")
    example.lie()
    example.learn_together("fedmedian, one lies", strategy="fedmedian")
    example.learn_together("fedavg, one lies", **clip)
    example.learn_together("fedavg without clipping, one lies")
    return example.report


def main() -> None:
    """Run it, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", type=Path, default=Path(".venv-flower"))
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hone-federated-") as folder:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
        example = Example(Path(folder).resolve(), arguments.environment.absolute())
        try:
            report = run(example)
        finally:
            example.stop()
    print(tell(report))
    print(f"load: {os.getloadavg()}")
    if arguments.json:
        arguments.json.write_text(json.dumps(vars(report), indent=2))


if __name__ == "__main__":
    main()
