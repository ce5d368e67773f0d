"""Ingest: checks shape, type and range of samples, and stages them for storage."""
