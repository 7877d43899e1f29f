"""The TOSA dialect: xDSL's operations, and those of TOSA 1.0 that it lacks.

The definitions are those of MLIR 22 (TosaOps.td): operands, properties and their names. What
an engine checks (legal types, shapes, profiles) is left to the engine; only what makes an
operation unreadable is verified here. Nothing in this package knows of `nn` or `quant`, so
that it could go upstream as it is.

Text is exchanged in the generic form only: the custom forms of MLIR 22 and 24 differ.
"""

from xdsl.dialects import tosa as upstream
from xdsl.ir import Dialect

from qdialect.dialects.tosa import arithmetic, contraction, data, shape
from qdialect.dialects.tosa.base import ResizeMode, ResizeModeAttr, TosaOp
from qdialect.dialects.tosa.data import ConstOp
from qdialect.dialects.tosa.shape import ConstShapeOp, ShapeType

_OURS = [*arithmetic.OPS, *contraction.OPS, *data.OPS, *shape.OPS]
_NAMES = {op.name for op in _OURS}

TOSA = Dialect(
    "tosa",
    [*_OURS, *(op for op in upstream.TOSA.operations if op.name not in _NAMES)],
    [*upstream.TOSA.attributes, ResizeModeAttr, ShapeType],
)

__all__ = ["TOSA", "ConstOp", "ConstShapeOp", "ResizeMode", "ResizeModeAttr", "ShapeType", "TosaOp"]
