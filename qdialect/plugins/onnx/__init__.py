"""ONNX files: the importer (`read`), the exporter (`write`), ONNX Runtime."""

from pathlib import Path

from qdialect.plugin import Engine, Plugin

PLUGIN = Plugin(
    name="onnx",
    dialects={"onnx": f"{__name__}.dialect:ONNX"},
    kept={"onnx.node": f"{__name__}.engine:run_kept"},
    engines={
        "onnxruntime": Engine(
            "ONNX Runtime, CPU, the graph as written",
            f"{__name__}.engine:OnnxRuntime",
            extra="onnx",
        ),
    },
    prices={"onnxruntime": Path(__file__).with_name("prices.json")},
)
