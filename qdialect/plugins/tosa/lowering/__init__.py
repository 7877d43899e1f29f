"""`nn` and `quant` to TOSA."""
