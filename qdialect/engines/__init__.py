"""Engines that others wrote, run as commands: what they make of our output judges it."""
