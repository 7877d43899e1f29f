"""Passes that make one op of the pieces that an exporter wrote."""
