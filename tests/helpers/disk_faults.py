"""A disk that fails when a test says so: fsync in a child process, by a preloaded library."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support import DEADLINE_S

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fails once, for a file whose name ends with FAULT_SUFFIX, when FAULT_TRIGGER exists. */
static int is_faulty(int descriptor) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    const char *suffix = getenv("FAULT_SUFFIX"), *trigger = getenv("FAULT_TRIGGER");
    if (length < 0 || !suffix || !trigger) return 0;
    path[length] = 0;
    if ((size_t)length < strlen(suffix) || strcmp(path + length - strlen(suffix), suffix)) return 0;
    return unlink(trigger) == 0;
}

#define FAILING(name) \
    int name(int descriptor) { \
        if (is_faulty(descriptor)) { errno = EIO; return -1; } \
        return ((int (*)(int))dlsym(RTLD_NEXT, #name))(descriptor); \
    }
FAILING(fsync)
FAILING(fdatasync)
"""


def failing_sync(folder: Path, *, suffix: str) -> tuple[dict[str, str], Path]:
    """Variables for a child whose next fsync of such a file fails once the path exists."""
    compiler = shutil.which("cc")
    if compiler is None or not Path("/proc/self/fd").exists():
        pytest.skip("this needs a C compiler and /proc")
    folder.mkdir(parents=True, exist_ok=True)
    source, library, trigger = folder / "fault.c", folder / "fault.so", folder / "trigger"
    source.write_text(_SOURCE)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"],
        check=True,
        timeout=DEADLINE_S,
    )
    faults = {
        "LD_PRELOAD": str(library),
        "FAULT_SUFFIX": suffix,
        "FAULT_TRIGGER": str(trigger),
    }
    return faults, trigger
