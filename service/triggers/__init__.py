"""Triggers: queue jobs by time or by new samples. The policy decides when these run."""
