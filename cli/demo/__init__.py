"""`honed demo`: an end-to-end example in which a device learns to read digits."""
