"""`honed doctor`: its checks, and the probe that trains one step."""
