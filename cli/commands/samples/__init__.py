"""Commands of samples: upload, lists, labels, deletion, archive, base set."""
