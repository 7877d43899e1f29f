"""The importer: exported programs as modules of `nn` and `quant`."""

from qdialect.plugins.torch.read.model import import_program

__all__ = ["import_program"]
