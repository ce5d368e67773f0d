"""Writes requirements.txt and testing.txt from what pip of Windows reports that it would install.

pip install --dry-run --ignore-installed --report report.json HONED.whl; the same with pytest,
pytest-xdist and hypothesis besides, as more.json; then
python3 lock.py report.json > requirements.txt; python3 lock.py more.json report.json > testing.txt
"""

import json
import sys
from pathlib import Path


def pinned(report: str) -> set[str]:
    """A line for each package but ours."""
    lines = set()
    for package in json.loads(Path(report).read_text("utf-8"))["install"]:
        name, version = package["metadata"]["name"], package["metadata"]["version"]
        if name != "honed":
            digest = package["download_info"]["archive_info"]["hashes"]["sha256"]
            lines.add(f"{name}=={version} --hash=sha256:{digest}\n")
    return lines


report, *others = map(pinned, sys.argv[1:])
sys.stdout.write("# lock.py says how to write this file anew.\n")
sys.stdout.writelines(sorted(report.difference(*others), key=str.lower))
