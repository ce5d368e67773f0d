"""What a request must have and may use: scopes, limits, and its entry in the audit log."""
