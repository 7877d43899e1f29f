"""Passes that only this format needs."""
