"""A device that lies: a node as `honed-flower`, whose updates are ten times as long."""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord
from honed_flower import client_app
from honed_flower.__main__ import main
from honed_flower.records import pack as pack_update
from honed_flower.updates import write_update
from safetensors.numpy import load

TIMES = np.float32(10)


def pack(content: bytes) -> ArrayRecord:
    """As `honed_flower.records.pack`, of the update times ten."""
    longer = {name: TIMES * values for name, values in load(content).items()}
    return pack_update(write_update(longer))


client_app.pack = pack

if __name__ == "__main__":
    main()
