"""Optimizers: what a job may choose, and the rules that carry it out."""
