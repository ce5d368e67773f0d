"""What a round of federated training sends: the difference, clipped, noised and compressed."""
