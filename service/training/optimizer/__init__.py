"""Optimizers: the options of a job, and the update rules."""
