"""StableHLO and CHLO: attributes, raising, lowering, interpreter, target and engine."""

from qdialect.plugin import Engine, Plugin

PLUGIN = Plugin(
    name="stablehlo",
    dialects={
        "stablehlo": f"{__name__}.dialect:STABLEHLO",
        "chlo": f"{__name__}.dialect:CHLO",
    },
    kernels=(f"{__name__}.interpreter.functions:KERNELS",),
    engines={
        "iree": Engine("IREE llvm-cpu, of TOSA", f"{__name__}.engine:Iree", environment="iree")
    },
    environments={"iree": ("iree-base-compiler==3.13.*", "iree-base-runtime==3.13.*")},
    imports={
        # Raising may change which way a tie rounds where a zero point is odd; the rest is exact.
        "stablehlo": "raise-stablehlo{numerics=ties},dce,canonicalize,integerize,raise-composites,"
        "fold-rescale,combine-rescale,canonicalize,fold-constants,cse,dce"
    },
    exports=f"{__name__}.export:EXPORTS",
)
