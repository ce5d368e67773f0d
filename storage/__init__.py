"""Storage: rows in SQLite, files by SHA-256. Knows no HTTP and no ONNX."""
