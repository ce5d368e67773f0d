"""How daemon and training child talk: messages as JSON lines over pipes."""
