"""Federations: devices in data folders, Flower's simulation, FedAvg in PyTorch."""
