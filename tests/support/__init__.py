"""Helpers that tests of several rooms use, and the programs in `tools/` with them."""
