"""What is done: ingest, schedule, policy, training, promotion. Knows no HTTP and no SQL text."""
