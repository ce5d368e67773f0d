"""The engine of ONNX Runtime On-Device Training 1.19.2, for artifacts of Microsoft's tools."""
