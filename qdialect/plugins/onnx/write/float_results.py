"""Products of codes whose result is a float: MatMulIntegerToFloat and QGemm.

Both sum integers, and multiply by the scales in f32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation

from qdialect.ir.ops import ConstantOp, FullyConnectedOp, MatMulOp, shape_of
from qdialect.ir.quant import element_type, quant_element
from qdialect.plugins.onnx.dialect import STORED_TRANSPOSED
from qdialect.plugins.onnx.write.kernels import WEIGHTS
from qdialect.plugins.onnx.write.quantization import parameters

if TYPE_CHECKING:
    from qdialect.algebra.qparams.parameters import QParams
    from qdialect.plugins.onnx.write.exporter import Exporter

_MS = "com.microsoft"


def write_to_float(exporter: Exporter, op: Operation, key: str, hint: str) -> bool:
    """Write `op` on stored integers with a float result; False if no kernel runs it."""
    found = _qparams(op)
    if found is None:
        return False
    lhs, rhs = found
    weight, transposed, tensor = op.operands[1], False, ""
    if STORED_TRANSPOSED in op.attributes and isinstance(weight.owner, ConstantOp):
        tensor, transposed = exporter.constant(weight.owner, transposed=True), True
    tensors = [exporter.tensor(op.operands[0]), tensor or exporter.tensor(weight)]
    graph = exporter.graph
    x, w = (parameters(graph, t, q) for t, q in zip(tensors, (lhs, rhs), strict=True))
    bias = [exporter.tensor(op.operands[2])] if len(op.operands) > 2 else []
    output = exporter.claim(op.results[0], hint)
    if isinstance(op, MatMulOp):
        inputs = [*tensors, x[0], w[0], x[1], w[1]]
        graph.node("MatMulIntegerToFloat", inputs, [output], key, _MS)
    else:
        inputs = [tensors[0], *x, tensors[1], *w, *bias]
        turned = 0 if transposed else 1
        graph.node("QGemm", inputs, [output], key, _MS, alpha=1.0, transA=0, transB=turned)
    return True


def _qparams(op: Operation) -> tuple[QParams, QParams] | None:
    """The qparams of both sides, if there is a kernel for them."""
    if not isinstance(op, MatMulOp | FullyConnectedOp) or element_type(op.result.type) != f32:
        return None
    elements = [quant_element(value.type) for value in op.operands]
    known = [element.qparams for element in elements if element is not None]
    if len(known) != len(elements):
        return None
    lhs, rhs = known[:2]
    shape = shape_of(op.operands[1])
    channel = len(shape) - 1 if isinstance(op, MatMulOp) else 0
    if not lhs.is_per_tensor or lhs.storage.spelling not in WEIGHTS:
        return None
    if rhs.storage.spelling not in WEIGHTS[lhs.storage.spelling]:
        return None
    if min(len(shape), len(shape_of(op.operands[0]))) < 2:
        return None
    if not rhs.is_per_tensor and (rhs.axis != channel or len(shape) != 2):
        return None
    return lhs, rhs
