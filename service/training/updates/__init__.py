"""The update of a federated round: the difference, clipped, noised and compressed."""
