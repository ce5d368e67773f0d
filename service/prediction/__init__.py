"""Prediction with the promoted versions, in a separate process."""
