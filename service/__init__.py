"""What the daemon does: ingest, schedule, policy, training, promotion. Knows no HTTP and no SQL."""
