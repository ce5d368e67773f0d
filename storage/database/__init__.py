"""The SQLite database: its one writer, its readers, its schema and migrations."""
