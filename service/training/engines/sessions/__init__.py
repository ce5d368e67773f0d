"""The engine of ordinary inference sessions, over flat buffers that nothing is copied out of."""
