"""Augmentation: random changes of training samples, by seed, sample and epoch."""
