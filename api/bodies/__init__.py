"""Request bodies: read in constant memory, bounded, and handed to ingest."""
