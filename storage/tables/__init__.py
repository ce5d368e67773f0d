"""Rows of models, jobs, metrics, events, triggers and the policy."""
