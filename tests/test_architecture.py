"""The house: which room may import which, where the engine may be named, what docs must hold."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from sources import ROOT, imported, imports, members, sources, statements, tree

ROOMS = {
    "storage": set(),
    "service": {"storage"},
    "api": {"storage", "service"},
    "cli": {"storage", "service", "api"},
}
FOREIGN = {
    "storage": {"fastapi", "starlette", "uvicorn", "onnx", "onnxruntime", "pydantic"},
    "service": {"fastapi", "starlette", "uvicorn", "sqlite3", "sqlite_utils"},
    "api": {"sqlite3", "sqlite_utils", "onnx", "onnxruntime", "numpy"},
    "cli": {"sqlite_utils"},
}
ENGINE_ROOMS = ("service/training/", "service/prediction/", "cli/demo/")
"""Where ONNX Runtime may be imported: children, and the demo's own inference."""


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_the_rooms_below_it(room: str) -> None:
    for path in sources(room):
        others = {name.split(".")[0] for name in imports(path)} & set(ROOMS) - {room}
        assert others <= ROOMS[room], f"{path.relative_to(ROOT)} imports {others - ROOMS[room]}"


@pytest.mark.parametrize("room", FOREIGN)
def test_a_room_knows_nothing_of_the_others_business(room: str) -> None:
    for path in sources(room):
        relative = path.relative_to(ROOT).as_posix()
        if relative.startswith(ENGINE_ROOMS):
            continue
        foreign = {name.split(".")[0] for name in imports(path)} & FOREIGN[room]
        assert not foreign, f"{relative} imports {foreign}"


def test_one_module_alone_imports_the_engine() -> None:
    door, quantize = "service/training/engines/runtime.py", "service/training/export/quantize.py"
    for room in ROOMS:
        for path in sources(room):
            relative = path.relative_to(ROOT).as_posix()
            names = {name for name in imports(path) if name.split(".")[0] == "onnxruntime"}
            if relative == quantize:
                names = {name for name in names if not name.startswith("onnxruntime.quantization")}
            assert not names or relative == door, f"{relative} imports {names}; use engines.runtime"


@pytest.mark.parametrize(
    "modules",
    [
        "service.prediction.__main__, service.prediction.loaded_models",
        "service.training.__main__, service.training.evaluation.evaluate",
    ],
)
def test_models_are_run_without_the_engines_offline_tools(modules: str) -> None:
    """They bring onnx and protobuf: 13 MB, and a third of what it takes to compare two models."""
    program = (
        f"import sys, {modules};"
        "print(sorted({'onnx', 'google.protobuf', 'torch', 'onnxruntime'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert run.stdout.split() == [b"['onnxruntime']"]


def test_models_are_quantized_without_sympy() -> None:
    program = "import sys, service.training.export.quantize; print('sympy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program]).split() == [b"False"]


def test_the_daemon_serves_without_the_engine() -> None:
    """Nor without need a client of HTTP and what verifies signatures: 10 MB, in a child."""
    never = {"cryptography", "httpx", "onnx", "onnxruntime", "tokenizers"}
    seen: set[str] = set()
    queue = ["api.server"]
    while queue:
        module = queue.pop()
        path = ROOT / Path(*module.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if module in seen or not path.exists():
            continue
        seen.add(module)
        for name in top_level_imports(path):
            assert name.split(".")[0] not in never, f"{module} imports {name}"
            queue.append(name)
    assert "service.jobs.scheduler" in seen


def test_the_daemon_loads_no_first_version_of_pydantic() -> None:
    """FastAPI would, for 1.7 MB, to ask of each annotation whether it is one of its models."""
    program = "import sys, api.server; print([m for m in sys.modules if 'pydantic.v1.' in m])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert run.stdout.split() == [b"[]"]


def test_the_daemon_loads_kinds_of_preprocessing_only_for_models_that_have_one() -> None:
    """With their augmentations they take a megabyte."""
    program = "import sys, api.server; print(*(m for m in sys.modules if 'service.prep' in m))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    kinds = {"audio", "image", "standardize", "text", "windows", "kinds", "redaction", "tokens"}
    assert not {f"service.preprocess.{kind}" for kind in kinds} & set(run.stdout.decode().split())


def test_the_resting_daemon_has_not_loaded_numpy(tmp_path: Path) -> None:
    """It takes 13 MB, and only samples and predictions need it. It is told to start no threads."""
    program = """if True:
        import os, sys, threading
        from pathlib import Path
        from cli.commands.serve import run_daemon
        from service.settings import load_settings
        stop, loaded = threading.Event(), []
        def listening(_):
            loaded.append("numpy._core" in sys.modules)
            stop.set()
        settings = load_settings(port=0, data_dir=Path(sys.argv[1]))
        run_daemon(settings, on_listening=listening, asked_to_stop=stop)
        from service.samples.ingest import tensors
        tensors.np.zeros(1)
        print(loaded, "numpy._core" in sys.modules, os.environ["OPENBLAS_NUM_THREADS"])
    """
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "data")],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "2"},
        capture_output=True,
        check=True,
    )
    assert run.stdout.decode().split("\n")[-2] == "[False] True 1"


def test_what_is_loaded_is_not_looked_through_for_garbage_after_each_job(tmp_path: Path) -> None:
    """All answers wait for that: 50 ms here, and some hundred on a small board."""
    program = """if True:
        import gc, sys
        from pathlib import Path
        from api.server import run
        from service.errors import BadSetting
        from service.settings import load_settings
        loaded = len(gc.get_objects())
        try:  # an address of nobody, so that it ends where it would begin to serve
            run(load_settings(host="192.0.2.1", port=1, data_dir=Path(sys.argv[1])))
        except BadSetting:
            print(gc.get_freeze_count() / loaded)
    """
    command = [sys.executable, "-c", program, str(tmp_path / "data")]
    run = subprocess.run(command, capture_output=True, check=True)
    assert float(run.stdout) > 0.9


NAME_A_LOSS = {
    "api/routes/models/registration.py": "an example of a spec",
    "cli/demo/demo.py": "the spec of its model",
    "cli/doctor/engine_probe.py": "the spec of its model",
}


def test_only_its_task_asks_for_a_loss_by_name() -> None:
    """What a loss is stood in twenty files: another loss would have been written into each."""
    from service.training.tasks import OWN, TASKS

    asking: dict[str, set[str]] = {}
    for room in ROOMS:
        for path in sources(room):
            nodes = list(ast.walk(tree(path)))
            compared = [n for c in nodes if isinstance(c, ast.Compare) for n in ast.walk(c)]
            constants = [n.value for n in nodes if isinstance(n, ast.Constant)]
            found = {n for n in constants if n in TASKS and n != OWN}
            found |= {OWN for n in compared if isinstance(n, ast.Constant) and n.value == OWN}
            if found:
                asking[path.relative_to(ROOT).as_posix()] = found
    others = {path for path in asking if not path.startswith("service/training/tasks/")}
    assert others == set(NAME_A_LOSS), asking


def test_a_metric_has_one_direction_whatever_the_task() -> None:
    from service.training.tasks import METRICS, TASKS

    for task in TASKS.values():
        for metric in task.metrics:
            assert metric.higher_is_better == METRICS[metric.name].higher_is_better


def top_level_imports(path: Path) -> set[str]:
    statements = [node for node in tree(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
    return set().union(*map(imported, statements), *map(members, statements))


def error_codes() -> set[str]:
    """The `code` of every error class of the house."""
    return {
        getattr(_imported(path), node.name).code
        for room in ROOMS
        for path in sources(room)
        for node in statements(path)
        if isinstance(node, ast.ClassDef) and "HoneError" in map(ast.unparse, node.bases)
    }


def _imported(path: Path) -> ModuleType:
    return import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


NEVER = "\u2013"
"""How the table says that a code never answers a request."""


def test_every_error_has_a_line_in_the_documentation() -> None:
    table = (ROOT / "docs/errors.md").read_text("utf-8")
    documented = set(re.findall(rf"^\| `(\w+)` \| (?:\d+|{NEVER}) \|", table, re.M))
    http_only = {"internal", "foreign_origin", "method_not_allowed", "range_not_satisfiable"}
    http_only |= {"wrong_host"}

    assert error_codes() | http_only == documented


def test_the_documented_status_is_the_real_one() -> None:
    from api.errors import STATUS

    table = (ROOT / "docs/errors.md").read_text("utf-8")
    rows = re.findall(rf"^\| `(\w+)` \| (\d+|{NEVER}) \|", table, re.M)
    assert {code: status for code, status in rows if status != NEVER} == {
        code: str(status) for code, status in STATUS.items()
    }
