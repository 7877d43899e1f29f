"""Calibration: observe the values of a float model, choose ranges, keep them in a file.

Statistics are integer counts and extremes, so that they merge exactly: the same
profile, byte for byte, however the data was split.
"""
