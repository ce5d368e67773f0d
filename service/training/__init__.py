"""The training child: `python -m service.training`."""

import os

# Else onnxruntime, from 1.32 on, reports to Microsoft and keeps an id of the device in the person's
# cache folder. It reads this when it is imported, which nothing outside of this package does.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
