"""Differentiates ONNX graphs, writing only ONNX's standard operators."""
