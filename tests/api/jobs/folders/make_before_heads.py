"""Made `before_heads.zip`: a data folder of the last Hone whose manifests did not tell the head.

It ran in a checkout of commit fbaf356, with tests/helpers on its path:
`python make_before_heads.py FOLDER ZIP`. All of `whole` trains, of `cut` the head, and
of `headless` the first layer. Each has samples, and version 2 of a job that ended.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

from support import Served, blobs, mlp

from storage.store import Store

MODELS = {
    "whole": ((6, 8, 3), {}),
    "cut": ((64, 8, 3), {"trainable": ["head"]}),
    "headless": ((6, 8, 3), {"trainable": ["layer0.*"]}),
}


def fill(served: Served) -> None:
    """Register, upload, and train."""
    for name, (sizes, spec) in MODELS.items():
        served.register(name, mlp(*sizes), gate={"mode": "always"}, **spec)
        served.upload(name, "train", **blobs(30, sizes[0], sizes[-1])).raise_for_status()
        served.train(name, epochs=1, seed=1)


def main() -> None:
    folder, target = map(Path, sys.argv[1:])
    Store.open(folder / "empty").close()
    served = Served(folder / "data", database=folder / "empty" / "hone.db")
    fill(served)
    served.stop()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((folder / "data").rglob("*")):
            if path.is_file() and path.name != "ballast" and path.parent.name != "backups":
                archive.write(path, path.relative_to(folder / "data"))


if __name__ == "__main__":
    main()
