"""Masks whose extents only the run tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType, i1, i64
from xdsl.ir import Attribute, SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops.base import ranked
from qdialect.plugins.common.extents import Extent
from qdialect.plugins.torch.read.sizes import run_time_number

if TYPE_CHECKING:
    from qdialect.plugins.torch.read.importer import Importer


def causal_mask(imp: Importer, rows: Extent, columns: Extent, element: Attribute) -> SSAValue:
    """[rows, columns]: 0 where the column is at most the row, -infinity behind."""
    zero, one = imp.scalar(0), imp.scalar(1)
    down, along = (
        imp.onnx("Range", [zero, run_time_number(imp, size), one], ranked(i64, [-1]))
        for size in (rows, columns)
    )
    imp.state(down, (rows,))
    imp.state(along, (columns,))
    down = imp.reshape(down, (rows, Extent.of(1)))
    kind: TensorType[Attribute] = ranked(i1, [-1, -1])
    below = imp.onnx("GreaterOrEqual", [down, along], kind)
    imp.state(below, (rows, columns))
    mask = imp.build(
        nn.SelectOp, below, imp.scalar(0.0, element), imp.scalar(-float("inf"), element)
    )
    imp.state(mask, (rows, columns))
    return mask
