"""Passes that write ops as other ops that a target runs, or runs faster."""
