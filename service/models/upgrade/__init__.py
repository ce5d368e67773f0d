"""Upgrades of a model to a new base: checked, begun, tried again, dropped. docs/upgrades.md."""
