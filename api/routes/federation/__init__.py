"""Routes of federated training: parameters in and out, rounds, consent and budget."""
