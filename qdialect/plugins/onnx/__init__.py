"""ONNX files: the importer (`read`), the exporter (`write`), ONNX Runtime."""

from qdialect.plugin import Engine, Plugin

PLUGIN = Plugin(
    name="onnx",
    home=__name__,
    dialects={"onnx": f"{__name__}.dialect:ONNX"},
    engines={
        "onnxruntime": Engine(
            "ONNX Runtime, CPU, the graph as written",
            "qdialect.engines.local:OnnxRuntime",
            extra="onnx",
        ),
    },
)
