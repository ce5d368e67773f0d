"""Loads a package when it is first used, though its importers have long been loaded."""

from __future__ import annotations

import importlib
import sys
import threading
from types import ModuleType
from typing import Any


def load_late(name: str) -> None:
    """Until one of its attributes or submodules is asked for, importing the package takes no
    memory. Does nothing if it is loaded already.

    `importlib.util.LazyLoader` does the same, but before Python 3.12 two threads that ask at once
    may see half a package.
    """
    sys.modules.setdefault(name, _Late(name))


class _Late(ModuleType):
    """In the package's place until it is loaded; then with all its attributes."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__lock = threading.RLock()

    def __getattr__(self, attribute: str) -> Any:
        with self.__lock:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            package = importlib.import_module(self.__name__)
            vars(self).update(vars(package))
        return getattr(package, attribute)
