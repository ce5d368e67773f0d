"""The engine of ordinary inference sessions, over flat buffers without copies."""
