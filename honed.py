"""The program `honed`. A wheel installs this file as `honed/__init__.py`, next to the rooms."""

from __future__ import annotations

import sys
from pathlib import Path

APPLICATION = Path(__file__).resolve().parent
"""Where the rooms api, cli, service and storage are: the repository, or the installed package."""


def main() -> None:
    """Run the command line.

    The application's folder comes first on the path: other packages may have a module `api` too.
    """
    sys.path.insert(0, str(APPLICATION))
    from cli.main import main as run

    run()


if __name__ == "__main__":
    main()
