"""How it is asked from a terminal: `honed …`."""
