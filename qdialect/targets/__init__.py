"""Targets: what a backend runs and what it costs."""
