"""Samples: ingest, changes, archive, ranking and erasure."""
