"""ONNX models in: `import_model` builds a module of `nn`, `quant` and `onnx` ops."""

from qdialect.frontends.onnx.importer import import_model

__all__ = ["import_model"]
