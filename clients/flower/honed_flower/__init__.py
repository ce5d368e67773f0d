"""Flower apps for Hone: daemons train rounds on devices, a server averages their updates."""
