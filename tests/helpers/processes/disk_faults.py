"""A disk that fails when a test says so, and says what was flushed: fsync in a child process."""

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
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A line of FAULT_LOG for each, with the path of the file. */
static void log_path(char *path, ssize_t length) {
    const char *log = getenv("FAULT_LOG");
    int descriptor = log ? open(log, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (descriptor < 0) return;
    path[length] = '\n';
    if (write(descriptor, path, length + 1) < 0) abort();
    close(descriptor);
}

/* Fails once, for a file whose name ends with FAULT_SUFFIX, when FAULT_TRIGGER exists. */
static int is_faulty(int descriptor) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    const char *suffix = getenv("FAULT_SUFFIX"), *trigger = getenv("FAULT_TRIGGER");
    if (length < 0 || !suffix || !trigger) return 0;
    log_path(path, length);
    path[length] = 0;
    if ((size_t)length < strlen(suffix) || strcmp(path + length - strlen(suffix), suffix)) return 0;
    return unlink(trigger) == 0;
}

/* With FAULT_KILLS the file is flushed, and the process ends as by SIGKILL. */
#define FAILING(name) \
    int name(int descriptor) { \
        int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, #name); \
        if (!is_faulty(descriptor)) return real(descriptor); \
        if (!getenv("FAULT_KILLS")) { errno = EIO; return -1; } \
        real(descriptor); \
        _exit(9); \
    }
FAILING(fsync)
FAILING(fdatasync)
"""


def failing_sync(folder: Path, *, suffix: str, kills: bool = False) -> tuple[dict[str, str], Path]:
    """Variables for a child whose next fsync of such a file fails once the path exists.

    kills: the fsync is the last that the child does. All that it flushes is in FAULT_LOG, by line.
    """
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
        "FAULT_LOG": str(folder / "log"),
    } | ({"FAULT_KILLS": "1"} if kills else {})
    return faults, trigger
