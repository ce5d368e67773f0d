"""The first engine, ONNX Runtime On-Device Training, and what is known of it."""
