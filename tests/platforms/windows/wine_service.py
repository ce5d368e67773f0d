"""`honed service …` where Wine's service manager refuses what it does not know, and tells it.

python wine_service.py install
"""

import sys

import pywintypes
import win32service

import honed

UNKNOWN = 124
"""ERROR_INVALID_LEVEL of winerror.h."""
change = win32service.ChangeServiceConfig2


def change_what_it_knows(service: object, level: int, value: object) -> None:
    try:
        change(service, level, value)
    except pywintypes.error as error:
        if error.winerror != UNKNOWN:
            raise
        sys.stderr.write(f"Wine knows no level {level}\n")


win32service.ChangeServiceConfig2 = change_what_it_knows
sys.argv[1:1] = ["service"]
honed.main()
