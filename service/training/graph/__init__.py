"""Differentiates ONNX graphs: what it writes are ONNX's standard operators, and nothing else."""
