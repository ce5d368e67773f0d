"""Training's speed and peak memory, compared with PyTorch and with a bare loop over the engine."""
