"""ONNX models in: `import_model` builds a module of `nn`, `quant` and `onnx` ops."""

from qdialect.formats.onnx.read.model import import_model

__all__ = ["import_model"]
