"""The names of upstream's dialects."""

# fmt: off
DIALECTS_WITH_ROWS = frozenset((
    "arith", "bufferization", "builtin", "cf", "check", "chlo", "complex", "func", "index",
    "interpreter", "linalg", "math", "memref", "ml_program", "quant", "scf", "shape", "stablehlo",
    "tensor", "tosa", "ub",
))
"""The dialects that quantized networks are written in or lowered to: each has a table."""

OTHER_DIALECTS = frozenset((
    "acc", "affine", "amdgpu", "amx", "arm_neon", "arm_sme", "arm_sve", "async", "dlti", "emitc",
    "gpu", "irdl", "llvm", "mpi", "nvgpu", "nvvm", "omp", "pdl", "pdl_interp", "ptr", "rocdl",
    "shard", "smt", "sparse_tensor", "spirv", "transform", "vcix", "vector", "wasmssa", "x86vector",
    "xegpu", "xevm",
))
"""The other dialects of mlir-opt 22: their ops are read and written in generic form alone, their
attributes as they are."""
