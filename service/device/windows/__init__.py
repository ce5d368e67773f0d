"""Signals on Windows, from the Win32 API."""
