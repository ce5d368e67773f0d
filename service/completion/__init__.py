"""Completion: the next words of a text, and generated text, in the predictor's process."""
