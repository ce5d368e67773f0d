"""`honed doctor`: what it checks, and the probe that trains one step."""
