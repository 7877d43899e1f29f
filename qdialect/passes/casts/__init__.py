"""Passes that move and fold quantize and dequantize."""
