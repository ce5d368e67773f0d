"""Federated training: consent, the privacy budget, and rounds that are trained for a server."""
