"""The installation: what is installed, and whether the data folder is as it should be."""
