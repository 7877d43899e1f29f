"""Float forms of `nn` ops, written once for all dialects that a module is lowered to."""
