"""Jobs from the queue to the version: scheduled, run in a child, recorded, published."""
