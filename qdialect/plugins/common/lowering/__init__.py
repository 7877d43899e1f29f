"""Lowers `nn` and `quant` to TOSA, linalg and StableHLO, bit for bit.

`conversion` converts functions, `emitter` builds operations, and each dialect has files by
families of ops (`elementwise`, `contraction`, `movement`, `pooling`, ...) with its table in
`convert`.
"""
