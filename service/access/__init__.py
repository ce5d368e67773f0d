"""Who may do what, and who did what: scopes, tokens, their limits, the audit log."""
