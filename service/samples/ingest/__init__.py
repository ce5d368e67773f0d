"""Ingest: checks shape, type, range of samples, and stages them for storage."""
