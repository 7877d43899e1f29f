"""Models back to PyTorch: `torch_module` makes a `torch.nn.Module` of a module of ours.

It computes what the interpreter does, with torch ops: on stored integers where a value is
quantized, on floats elsewhere.  Torch is imported when the function is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.packages import package

if TYPE_CHECKING:
    from torch.fx import GraphModule
    from xdsl.dialects.func import FuncOp

    from qdialect.ir.weights import BlobStore

__all__ = ["torch_module"]


def torch_module(function: FuncOp, weights: BlobStore, *, trainable: bool = False) -> GraphModule:
    """The function as a module (see `qdialect.to_torch`); QError (`missing-package`) without
    torch, UnsupportedError for an op that has no form in torch."""
    package("torch")
    from qdialect.plugins.torch.write.module import ModuleWriter

    return ModuleWriter(function, weights, trainable).write()
