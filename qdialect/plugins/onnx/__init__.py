"""ONNX files: the importer (`read`), the exporter (`write`), ONNX Runtime."""

from qdialect.plugin import Engine, Plugin

PLUGIN = Plugin(
    name="onnx",
    home=__name__,
    dialects={"onnx": f"{__name__}.dialect:ONNX"},
    kept={"onnx.node": f"{__name__}.engine:run_kept"},
    engines={
        "onnxruntime": Engine(
            "ONNX Runtime, CPU, the graph as written",
            f"{__name__}.engine:OnnxRuntime",
            extra="onnx",
        ),
    },
)
