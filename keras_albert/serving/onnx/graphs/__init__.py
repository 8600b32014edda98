"""ONNX graphs from strings to predictions, one per task."""
