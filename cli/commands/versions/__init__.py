"""Commands of versions: lists, comparison, files, aliases, checkpoints, prediction."""
