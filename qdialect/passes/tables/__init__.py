"""Passes that evaluate functions of codes once, into lookup tables."""
