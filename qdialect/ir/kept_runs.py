"""Running what is kept of models without being understood: `onnx.node` and `torch.node`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.plugins.torch.dialect import TorchNodeOp

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.ir import Operation

    from qdialect.ir.weights import BlobStore

KEPT = (NodeOp.name, TorchNodeOp.name)
"""The names of the ops."""


def evaluate_kept(
    op: Operation, operands: Sequence[NDArray[Any]], store: BlobStore
) -> list[NDArray[Any]]:
    """The results of a kept op on arrays of its operands; QError where nothing runs it."""
    if isinstance(op, TorchNodeOp):
        from qdialect.plugins.torch.evaluate import evaluate_node as evaluate_torch_node

        return evaluate_torch_node(op, operands)
    from qdialect.plugins.onnx.write import evaluate_node

    return evaluate_node(cast("NodeOp", op), operands, store)
