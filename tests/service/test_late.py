"""A package that is loaded late is whole for whoever uses it, and not there until then."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from service.late import load_late

NAME = "loaded_late_in_a_test"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package's __init__.py; it has the submodule `part`."""
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "part.py").write_text("NUMBER = 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder / "__init__.py"
    for name in [module for module in sys.modules if module.split(".")[0] == NAME]:
        del sys.modules[name]


def test_it_is_loaded_when_something_of_it_is_used(package: Path) -> None:
    package.write_text("import sys\nsys.loads = getattr(sys, 'loads', 0) + 1\nNUMBER = 1\n")
    load_late(NAME)
    module = importlib.import_module(NAME)
    assert not hasattr(sys, "loads")
    assert module.NUMBER == 1
    assert vars(sys).pop("loads") == 1
    again = importlib.import_module(NAME)
    assert (again.NUMBER, module.__file__) == (1, str(package))
    again.LATER = 3
    assert module.LATER == 3
    with pytest.raises(AttributeError, match="NOTHING"):
        _ = module.NOTHING
    load_late(NAME)
    assert importlib.import_module(NAME) is again


def test_its_submodules_can_be_imported(package: Path) -> None:
    package.write_text("NUMBER = 1\n")
    load_late(NAME)
    module = importlib.import_module(NAME)
    assert importlib.import_module(f"{NAME}.part").NUMBER == 2
    assert (module.NUMBER, module.part.NUMBER) == (1, 2)


def test_threads_that_use_it_at_once_all_see_the_whole(package: Path) -> None:
    package.write_text("import time\nFIRST = 1\ntime.sleep(0.05)\nLAST = 2\n")
    load_late(NAME)
    module = importlib.import_module(NAME)
    together = Barrier(8)

    def last(_: int) -> int:
        together.wait(timeout=60)
        found: int = module.LAST
        return found

    with ThreadPoolExecutor(8) as threads:
        assert [*threads.map(last, range(8))] == [2] * 8


def test_an_error_while_it_loads_is_told_each_time(package: Path) -> None:
    package.write_text("raise ImportError('it is broken')\n")
    load_late(NAME)
    module = importlib.import_module(NAME)
    for _ in range(2):
        with pytest.raises(ImportError, match="it is broken"):
            _ = module.NUMBER
