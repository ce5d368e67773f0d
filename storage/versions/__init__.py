"""Versions of models: aliases, promotions, variants, checkpoints and retention."""
