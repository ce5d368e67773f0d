"""Backups: written, checked, restored, and made daily by the daemon itself."""
