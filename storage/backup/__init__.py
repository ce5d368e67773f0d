"""Copies of everything that is kept, and putting one back."""
