"""Convolutions in ONNX Runtime's own layout: written, differentiated, lowered to its operators."""
