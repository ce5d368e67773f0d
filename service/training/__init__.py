"""The training child: `python -m service.training`."""

import os

# Else onnxruntime 1.32 keeps an id of the device and a database of events for Microsoft's telemetry in
# the person's cache folder. It reads this when it is imported, which only this package does.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
