from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from support import Served


def test_sixty_photos_teach_a_network_to_find_parcels_with_another_camera(
    tmp_path: Path, serve: Callable[..., Served], run: Callable[..., str]
) -> None:
    # As in `honed demo`: beside other tests a nice job gets little.
    served = serve(training_nice=0)
    told = run("parcels/learn.py", tmp_path / "seen.png", served=served)
    before, after = map(float, re.findall(r"(0\.\d+|1\.00) (?:before|after)", told))
    assert before <= 0.4, told
    assert after >= max(0.7, before + 0.15), told
    assert (tmp_path / "seen.png").stat().st_size > 1000
    versions = served.http.get("/v1/models/parcels/versions").json()["items"]
    assert [version["promoted"] for version in versions] == [True, True, True]
