"""Request bodies: read in constant memory, bounded, and passed to ingest."""
