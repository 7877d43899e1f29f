"""`nn` and `quant` to linalg, arith and tensor."""
