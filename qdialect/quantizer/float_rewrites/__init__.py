"""Rewrites of a float model that keep its function and make it easier to quantize."""
