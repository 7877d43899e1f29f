"""Rewrites of a float model that leave its function as it is and make it easier to quantize."""
