"""TFLite: files, dialect, kernels of LiteRT, target and engine."""

from pathlib import Path

from qdialect.plugin import Engine, Plugin

PLUGIN = Plugin(
    name="tflite",
    dialects={"tflite": f"{__name__}.dialect:TFLITE"},
    kernels=(f"{__name__}.interpreter.nodes:KERNELS",),
    kept={"tflite.node": f"{__name__}.engine_node:evaluate_node"},
    engines={
        "litert": Engine("litert-xnn", f"{__name__}.engine:LitertXnn", extra="litert"),
        "litert-xnn": Engine(
            "LiteRT as it runs files: XNNPACK, and optimized kernels where that has none",
            f"{__name__}.engine:LitertXnn",
            extra="litert",
        ),
        "litert-opt": Engine(
            "LiteRT, its optimized kernels", f"{__name__}.engine:LitertOpt", extra="litert"
        ),
        "litert-ref": Engine(
            "LiteRT, its reference kernels", f"{__name__}.engine:LitertRef", extra="litert"
        ),
    },
    imports={"tflite": "raise-tflite,dce,canonicalize,cse,dce"},
    exports=f"{__name__}.export:EXPORTS",
    prices={"litert": Path(__file__).with_name("prices.json")},
)
