"""The protocol between daemon and training child: messages as JSON lines over pipes."""
