"""python -m service.preprocess.thumbnail SIZE: an image on stdin, a small PNG on stdout."""

from __future__ import annotations

import io
import sys

from service.preprocess.kind import Unreadable
from service.preprocess.pictures import decode, flatten
from service.processes import sandbox


def main() -> int:
    """Exit code 1 and one line on stderr if the image cannot be read."""
    size = int(sys.argv[1])
    sandbox.enter()
    try:
        picture = flatten(decode(sys.stdin.buffer.read()), "rgb")
    except Unreadable as error:
        sys.stderr.write(f"{error}\n")
        return 1
    picture.thumbnail((size, size))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    sys.stdout.buffer.write(buffer.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main())
