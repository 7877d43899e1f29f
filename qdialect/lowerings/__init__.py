"""From `nn` and `quant` to the dialects that compilers take."""
