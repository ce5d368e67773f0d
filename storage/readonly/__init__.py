"""Read access for the training child, without threads or a writer."""
