"""Writes requirements.txt, from the report of pip of Windows on what it would install.

pip install --dry-run --ignore-installed --report report.json HONED.whl pytest pytest-xdist
hypothesis; then python3 lock.py < report.json > requirements.txt
"""

import json
import sys

sys.stdout.write("# What pip of Windows resolved; lock.py says how to write this file anew.\n")
for package in sorted(json.load(sys.stdin)["install"], key=lambda p: p["metadata"]["name"].lower()):
    name, version = package["metadata"]["name"], package["metadata"]["version"]
    if name != "honed":
        digest = package["download_info"]["archive_info"]["hashes"]["sha256"]
        sys.stdout.write(f"{name}=={version} --hash=sha256:{digest}\n")
