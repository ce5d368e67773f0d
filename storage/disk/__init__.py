"""What the file system gives: durable writes, temporary bytes, the lock and the ballast."""
