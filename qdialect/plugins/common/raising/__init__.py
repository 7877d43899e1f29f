"""From dialects of others to `nn` and `quant`: the way back of `lowerings`."""
