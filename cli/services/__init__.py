"""The daemon as a system service: systemd, launchd, or Windows."""
