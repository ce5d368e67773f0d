"""The commands of `honed`, one module for each group."""
