"""Optimizers: what a job may choose, and the graphs of standard operators that carry it out."""
