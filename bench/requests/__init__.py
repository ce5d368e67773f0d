"""How fast the daemon answers requests, at rest and while a job trains."""
