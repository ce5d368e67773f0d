"""Samples on their way in, changed by people, archived, ranked and erased."""
