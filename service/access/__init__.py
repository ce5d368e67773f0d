"""Who may do what, and who did: scopes, tokens, their limits, the audit log."""
