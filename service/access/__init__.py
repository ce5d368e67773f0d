"""Who may do what: scopes, tokens and their limits."""
