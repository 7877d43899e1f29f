"""Passes for kernels of LiteRT."""
