"""Reads a forward ONNX model: what goes in and comes out, what trains, and where it is cut."""
