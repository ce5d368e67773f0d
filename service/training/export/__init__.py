"""Inference models: exported, checked, joined, converted."""
