"""TOSA as `nn` and `quant`."""
