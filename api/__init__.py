"""The HTTP API: routes, schemas, security, errors."""

import sys

# FastAPI asks of each annotation whether it is a model of pydantic's first version, and loads all
# of that to know: 1.7 MB of a resting daemon, and 20 ms of its start (measured). None of ours is.
sys.modules.setdefault("pydantic.v1", None)  # type: ignore[arg-type]
