"""Jobs from the queue to the result: scheduled, run in a child, recorded, published."""
