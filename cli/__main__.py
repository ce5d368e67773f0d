"""`python -m cli` is `honed`."""

from cli.main import main

main()
