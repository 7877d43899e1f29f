"""ONNX models out, and ONNX engines: `export_model`, `save_model`, `OrtEngine`."""

from qdialect.formats.onnx.write.engine import OrtEngine, evaluate_node
from qdialect.formats.onnx.write.model import export_model, write_model
from qdialect.formats.onnx.write.save import copy_model, keeps_weights_beside, save_model

__all__ = [
    "OrtEngine",
    "copy_model",
    "evaluate_node",
    "export_model",
    "keeps_weights_beside",
    "save_model",
    "write_model",
]
