"""Jobs, from queue to version: scheduled, run in a child, recorded, published."""
