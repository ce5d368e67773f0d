"""The training child: `python -m service.training`."""
