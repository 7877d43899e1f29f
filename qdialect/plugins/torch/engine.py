"""PyTorch in this process, on ops that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.ir import Operation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.interpreter import Evaluation
    from qdialect.plugins.torch.dialect import TorchNodeOp


def run_kept(
    op: Operation, operands: Sequence[NDArray[Any]], evaluation: Evaluation
) -> list[NDArray[Any]]:
    """The kernel of `torch.node`; QError (`cannot-evaluate`) where PyTorch does not run it."""
    from qdialect.plugins.torch.evaluate import evaluate_node

    return evaluate_node(cast("TorchNodeOp", op), operands)
