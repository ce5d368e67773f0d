"""Backups: written, checked and restored, and the daemon's own daily ones."""
