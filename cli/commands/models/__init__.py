"""Commands of models: registration, classes, settings, what versions are judged by."""
