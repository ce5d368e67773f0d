"""Every process that the daemon starts of its own code is limited as all are."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from masks import CLASSES, mask_model, png, scene
from masks import PREPROCESS as SCENES
from pictures import PREPROCESS, image_model, photo
from support import client, wait_until
from vendors import Vendor

from service.processes.children import OOM_SCORE_ADJ

ROOT = Path(__file__).parents[2]
STARTED = re.compile(r'\bspawn\(\s*"([\w.]+)"')
FOLLOWED = {"source": "http://127.0.0.1:9/m.onnx", "keys": [Vendor().pem]}
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class Watched:
    """What the system says of each child, once the daemon has it and before it can do anything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[tuple[str, dict[str, str]]] = []
        self._start = asyncio.create_subprocess_exec
        monkeypatch.setattr(asyncio, "create_subprocess_exec", self._noted)

    async def _noted(self, *command: Any, **options: Any) -> asyncio.subprocess.Process:
        process = await self._start(*command, **options)
        asyncio.get_running_loop().call_soon(self._look, command[2], process.pid)
        return process

    def _look(self, module: str, pid: int) -> None:
        proc = Path(f"/proc/{pid}")
        names = ("limits", "oom_score_adj", "environ")
        self.found.append((module, {name: (proc / name).read_text() for name in names}))


def kinds() -> set[str]:
    """Every module that some line of the daemon starts."""
    lines = [
        path.read_text() for room in ("service", "api") for path in (ROOT / room).rglob("*.py")
    ]
    return {module for text in lines for module in STARTED.findall(text)}


def use_all(http: Any) -> None:
    """Ask for one of everything that a child does."""
    spec = {
        "name": "m",
        "loss": "cross_entropy",
        "preprocess": PREPROCESS,
        "classes": ["dark", "bright"],
    }
    url, model = "/v1/models/m", {"model": ("model.onnx", image_model())}
    scenes = {**spec, "name": "scenes", "classes": CLASSES, "preprocess": SCENES}
    shown, mask = map(png, scene(0))
    asked = [
        http.post("/v1/models", data={"spec": json.dumps(spec)}, files=model),
        http.post(
            f"{url}/samples?label=dark&split=train",
            content=photo(60, 1),
            headers={"Content-Type": "image/png"},
        ),
        http.get(f"{url}/samples/1/thumbnail"),
        http.get(f"{url}/latest/model.onnx?variant=ort"),
        http.post(f"{url}/predict", content=photo(60, 2), headers={"Content-Type": "image/png"}),
        http.get("/openapi.json"),
        http.get("/v1/system"),
        http.put(f"{url}/follow", json=FOLLOWED),
        http.post(
            "/v1/models",
            data={"spec": json.dumps(scenes)},
            files={"model": ("model.onnx", mask_model())},
        ),
        http.post(
            "/v1/models/scenes/samples",
            files=[
                (name, ("0.png", file, "image/png"))
                for name, file in (("image", shown), ("mask", mask))
            ],
        ),
        http.post(f"{url}/jobs", json={"max_steps": 1, "ignore_policy": True}),
    ]
    codes = [each.status_code for each in asked]
    assert codes == [201, 201, 200, 200, 200, 200, 200, 200, 201, 201, 202], asked
    job = asked[-1].headers["Location"]
    wait_until(lambda: http.get(job).json()["state"] == "succeeded", "the job to end")
    wait_until(lambda: http.get(f"{url}/follow").json()["error"], "the source to be asked")


# The daemon ignores it, but here pytest has the last word on warnings.
@pytest.mark.filterwarnings("ignore::pydantic.warnings.UnsupportedFieldAttributeWarning")
def test_each_kind_of_child_has_the_limits_of_all(
    serve_inside: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HONED_TOKEN", "hone_not_for_children")
    watched = Watched(monkeypatch)
    inside = serve_inside()
    with client(inside.url, token=inside.token) as http:
        use_all(http)

    assert {module for module, _ in watched.found} == kinds()
    trainings = [module for module, _ in watched.found if module == "service.training"]
    assert len(trainings) >= 3  # a check, a variant, a job
    for module, said in watched.found:
        (soft,) = re.findall(r"^Max data size +(\S+)", said["limits"], re.MULTILINE)
        assert soft.isdecimal(), f"{module} may take any amount of memory"
        assert int(said["oom_score_adj"]) == OOM_SCORE_ADJ, module
        assert "HONED_TOKEN" not in said["environ"], module
