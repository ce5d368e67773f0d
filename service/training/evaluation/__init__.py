"""Measuring models: validation metrics, comparisons, uncertainty."""
