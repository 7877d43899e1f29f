"""TOSA: dialect, raising, lowering, interpreter, target and engine."""

from qdialect.plugin import Engine, Plugin

PLUGIN = Plugin(
    name="tosa",
    dialects={"tosa": f"{__name__}.dialect:TOSA"},
    kernels=(f"{__name__}.interpreter:KERNELS",),
    engines={
        "tosa-reference": Engine(
            "the reference model of TOSA, by Arm",
            f"{__name__}.engine:TosaReference",
            environment="tosa-reference",
        ),
    },
    environments={"tosa-reference": ("tosa-tools==2026.8.0",)},
    imports={
        # Raising is exact, and so is what follows: rescales become real ones, and are absorbed by
        # the ops in front of them, where no code can tell.
        "tosa": "raise-tosa,dce,canonicalize,convert-rescale{form=real},fold-rescale,"
        "combine-rescale,canonicalize,fold-constants,cse,dce"
    },
    exports=f"{__name__}.export:EXPORTS",
)
