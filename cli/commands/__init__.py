"""The commands of `honed`, one module per group."""
