"""A job's training data: batches of samples, files and features."""
