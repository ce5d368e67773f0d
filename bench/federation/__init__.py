"""Parts of `bench federated`: devices in data folders, Flower's simulation, FedAvg in PyTorch."""
