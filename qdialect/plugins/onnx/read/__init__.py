"""ONNX models in: `import_model` builds a module of `nn`, `quant` and `onnx` ops."""

from qdialect.plugins.onnx.read.model import import_model
from qdialect.plugins.onnx.read.qonnx_ops import is_spelled_out

__all__ = ["import_model", "is_spelled_out"]
