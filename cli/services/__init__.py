"""The daemon as a service of the system: of systemd, launchd, or Windows."""
