"""What a job trains on: batches of samples, images and features."""
