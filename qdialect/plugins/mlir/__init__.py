"""MLIR text: the parser (`read`) and the printer (`write`)."""
