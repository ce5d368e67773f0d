"""One run of honed-flower's ServerApp in Flower's simulation runtime; prints what it cost, as JSON.

python -m bench.federation.simulation FOLDER DEVICES KEY=VALUE…: in an environment that has Flower
with its simulation, and Hone. The settings are those of clients/flower/pyproject.toml.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import pydantic.v1  # noqa: F401 - Ray needs it, and our api keeps out what is not loaded before
import tomli
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation
from honed_flower import server_app

from bench.federation import simulated_device

ROOT = Path(__file__).parents[2]
PROCESSORS_A_DEVICE = 1


class Measured(server_app.Run):
    """Notes at the end of each round what the server has taken until then; round 0 is the start.

    cpu_s: of the ServerApp's thread. peak_mb: of the process, with the SuperLink's state.
    """

    costs: list[dict[str, float]] = []  # noqa: RUF012 - of the one run of this process

    def finish_round(self, number: int, arrays: ArrayRecord) -> MetricRecord | None:
        """As the ServerApp's."""
        found = super().finish_round(number, arrays)
        self.costs.append(
            {
                "s": time.monotonic(),
                "cpu_s": time.thread_time(),
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "parameter_bytes": sum(array.numpy().nbytes for array in arrays.values()),
            }
        )
        return found


def main(folder: Path, devices: int, asked: dict[str, Any]) -> None:
    """Run it to its end."""
    text = (ROOT / "clients" / "flower" / "pyproject.toml").read_text("utf-8")
    config = tomli.loads(text)["tool"]["flwr"]["app"]["config"]
    given = {"model": str(folder / "model.onnx"), "output": str(folder / "run"), "nodes": devices}
    served = ServerApp()

    @served.main()
    def _(grid: Grid, context: Context) -> None:
        context.run_config = {**config, **given, **asked}
        server_app.main(grid, context)

    os.environ[simulated_device.FOLDER] = str(folder)
    server_app.Run = Measured  # type: ignore[misc]
    run_simulation(
        server_app=served,
        client_app=simulated_device.app,  # type: ignore[arg-type]
        num_supernodes=devices,
        backend_config={
            "client_resources": {"num_cpus": PROCESSORS_A_DEVICE, "num_gpus": 0.0},
            "init_args": {"_temp_dir": str(folder / "ray")},  # which else stays behind in /tmp
        },
    )
    print(json.dumps(Measured.costs))


if __name__ == "__main__":
    settings = dict(setting.split("=", 1) for setting in sys.argv[3:])
    parsed = {name: json.loads(value) for name, value in settings.items()}
    main(Path(sys.argv[1]), int(sys.argv[2]), parsed)
