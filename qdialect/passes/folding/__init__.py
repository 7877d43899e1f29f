"""Passes that evaluate constants and fold affine functions into scales and weights."""
