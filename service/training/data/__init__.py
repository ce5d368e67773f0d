"""What a job trains on: batches of samples, files and features."""
