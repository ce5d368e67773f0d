"""Flower apps for Hone: devices train rounds by their daemons, a server averages what they send."""
