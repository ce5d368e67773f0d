"""`python -m cli` in the repository, `python -m honed` where the wheel is installed."""

from honed import main

main()
