"""python -m service.follow: asks one source, and downloads what it offers.

A process of its own: the daemon keeps neither the memory of an HTTP client nor that of a library of
signatures, and what comes from a network is read where no other file can be reached. An `Inquiry`
on stdin, `FetchMessage` on stdout. End of file on stdin means that the daemon is gone.
"""

from __future__ import annotations

import logging
import os
import sys
import threading

from service.follow.messages import FetchFailed, FetchMessage, inquiry_in, line
from service.processes import sandbox
from service.training.limits import apply_limits
from service.training.protocol.messages.shared import ResourceLimits
from storage.disk.durable import fault_behind
from storage.errors import HoneError

logger = logging.getLogger("service.follow")


def main() -> None:
    """One inquiry, answered."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    inquiry = inquiry_in(sys.stdin.buffer.readline())
    try:
        apply_limits(ResourceLimits())
        sandbox.enter(writable=[inquiry.folder], network=True)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        # Within the sandbox, as all of it is.
        from service.follow.fetch import carry_out

        send(carry_out(inquiry, send))
    except Exception as error:
        told = fault_behind(error, "the source could not be asked") or error
        if isinstance(told, HoneError):
            send(FetchFailed(told.code, told.detail))
            return
        logger.exception("child_broke")
        words = f"{type(error).__name__}: {error}"
        send(FetchFailed("internal", f"a bug in Hone, please report it: {words}"))


def send(message: FetchMessage) -> None:
    """Write one line."""
    sys.stdout.buffer.write(line(message))
    sys.stdout.buffer.flush()


def _end_with_parent() -> None:
    """What was downloaded stays, and the next run goes on with it."""
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
