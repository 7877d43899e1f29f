"""`nn` and `quant` to StableHLO with quantized types."""
