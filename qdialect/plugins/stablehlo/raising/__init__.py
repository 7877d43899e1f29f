"""StableHLO to `nn` and `quant`."""
