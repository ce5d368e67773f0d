from __future__ import annotations

import re
from collections.abc import Callable


def test_a_device_gets_a_better_network_overnight_and_refuses_a_broken_one(
    run: Callable[..., str],
) -> None:
    done = run("upgrade/upgrade.py")
    assert "by day nothing is asked: it is" in done
    assert "a broken one: not promoted" in done
    assert "a foreign one: signature_refused" in done
    alone, before, after = map(float, re.findall(r"(\d+\.\d)%", done)[-3:])
    assert after >= before > alone, done
