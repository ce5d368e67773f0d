"""Commands of models: registration, classes, settings, and how versions are judged."""
