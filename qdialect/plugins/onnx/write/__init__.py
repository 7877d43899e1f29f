"""ONNX models out, and ONNX engines: `write_model`, `save_model`, `OrtEngine`."""

from qdialect.plugins.onnx.write.engine import OrtEngine, evaluate_node
from qdialect.plugins.onnx.write.model import write_model
from qdialect.plugins.onnx.write.save import copy_model, keeps_weights_beside, save_model

__all__ = [
    "OrtEngine",
    "copy_model",
    "evaluate_node",
    "keeps_weights_beside",
    "save_model",
    "write_model",
]
