"""`honed demo`: a device that learns to read digits, from start to end."""
