"""Running passes: pipeline text, the pass manager and what watches it."""
