"""Arithmetic of LiteRT: its scales, rescales and functions."""
