"""The names of upstream's dialects."""

DIALECTS_WITH_ROWS = frozenset(
    (
        "affine",
        "arith",
        "bufferization",
        "builtin",
        "cf",
        "check",
        "chlo",
        "complex",
        "func",
        "gpu",
        "index",
        "interpreter",
        "linalg",
        "math",
        "memref",
        "ml_program",
        "quant",
        "scf",
        "shape",
        "stablehlo",
        "tensor",
        "tosa",
        "transform",
        "ub",
        "vector",
    )
)
"""The dialects that have a table."""


OTHER_DIALECTS = frozenset(
    (
        "acc",
        "amdgpu",
        "amx",
        "arm_neon",
        "arm_sme",
        "arm_sve",
        "async",
        "dlti",
        "emitc",
        "irdl",
        "llvm",
        "mpi",
        "nvgpu",
        "nvvm",
        "omp",
        "pdl",
        "pdl_interp",
        "ptr",
        "rocdl",
        "shard",
        "smt",
        "sparse_tensor",
        "spirv",
        "vcix",
        "wasmssa",
        "x86vector",
        "xegpu",
        "xevm",
    )
)
"""The other dialects of mlir-opt 22: their ops pass through in generic form, their attributes as
they are."""
