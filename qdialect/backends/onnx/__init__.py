"""ONNX models out, and ONNX engines: `export_model`, `save_model`, `OrtEngine`."""

from qdialect.backends.onnx.engine import OrtEngine, evaluate_node
from qdialect.backends.onnx.exporter import export_model, write_model
from qdialect.backends.onnx.save import copy_model, keeps_weights_beside, save_model

__all__ = [
    "OrtEngine",
    "copy_model",
    "evaluate_node",
    "export_model",
    "keeps_weights_beside",
    "save_model",
    "write_model",
]
