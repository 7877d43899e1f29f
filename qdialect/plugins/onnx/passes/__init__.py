"""Passes for ONNX Runtime: its kernels, its order of axes, its sums."""
