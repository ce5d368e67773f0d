"""What the training child reads: no thread, no writer."""
