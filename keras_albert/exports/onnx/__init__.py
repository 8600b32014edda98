"""Export to ONNX."""
