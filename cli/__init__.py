"""The command line: `honed …`."""
