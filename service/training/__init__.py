"""The training child: `python -m service.training`."""

import os

# Else onnxruntime 1.32 keeps an id of the device and a database of events in the person's cache
# folder, for Microsoft's telemetry. It is read at its import, which only this package does.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
