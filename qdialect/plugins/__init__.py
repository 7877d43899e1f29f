"""The formats: one folder each, and what several need in `common`."""
