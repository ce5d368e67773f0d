"""Access control for requests: scopes, limits, and the audit log entry."""
