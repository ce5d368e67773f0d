"""The file system: durable writes, temporary files, the lock and the ballast."""
