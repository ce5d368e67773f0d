"""Copies all stored data, and restores them."""
