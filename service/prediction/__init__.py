"""Prediction: the promoted versions at work, in a process of their own."""
