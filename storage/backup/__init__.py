"""Copies of all stored data, and restoring them."""
