"""ONNX models in: `import_model` builds a module of `nn`, `quant` and `onnx` ops."""

from qdialect.formats.onnx.read.model import import_model
from qdialect.formats.onnx.read.qonnx_ops import is_spelled_out

__all__ = ["import_model", "is_spelled_out"]
