"""Reads a forward ONNX model: its inputs and outputs, what trains, and where it is cut."""
