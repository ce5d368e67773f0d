"""Data too large for rows: files by SHA-256, packs of samples, cached rows."""
