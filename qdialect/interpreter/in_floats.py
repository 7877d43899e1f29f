"""Quantized ops of a module whose arithmetic is that of the expressed type.

    y = qcast(op(dcast(x), ...))      op in floats, each step as its own kernel computes it

`quant.arithmetic` of the module says so (docs/design/002-rescale-contracts.md).  What only
moves codes or tells their order stays on codes; so do lookups and fixed-point rescales, which
are defined on them, sums of 32 bits, and products of codes with a float result, which ONNX
computes in integers.  What an integer kernel defines (`nn.kernel`) is taken for the real function,
which the kernel comes close to.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Operation

from qdialect.interpreter import casts, indexing, movement
from qdialect.interpreter.codes import is_coded
from qdialect.interpreter.quantize import rounding_of
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.ir import ops as nn
from qdialect.ir.ops.base import is_kernel
from qdialect.ir.quant import RescaleOp, expressed_type, quant_element, with_element
from qdialect.ir.quant.arithmetic import arithmetic_of

_ON_CODES = frozenset(
    (
        *movement.KERNELS,
        *indexing.KERNELS,
        nn.MaximumOp.name,
        nn.MinimumOp.name,
        nn.ReluOp.name,
        nn.ReduceMaxOp.name,
        nn.ReduceMinOp.name,
        nn.TopKOp.name,
        *(kind.name for kind in nn.MAX_POOLS),
    )
)
_WIDEST = 16
"""Bits of the codes that QuantizeLinear gives."""


def computes_in_floats(op: Operation, evaluation: Evaluation) -> bool:
    """Whether `op` is dequantize, a float op and quantize."""
    if evaluation.floats != "ieee" or not op.results or is_kernel(op):
        return False
    elements = [quant_element(result.type) for result in op.results]
    if any(e is None or is_coded(e.qparams.storage) for e in elements):
        return False
    if isinstance(op, RescaleOp):
        if op.fixed_point is not None:
            return False
    elif not isinstance(op, nn.NNOp) or isinstance(op, nn.ConstantOp):
        return False
    if any(e is not None and e.qparams.storage.width > _WIDEST for e in elements):
        return False
    if op.name in _ON_CODES:
        known = {e for v in (*op.operands, *op.results) if (e := quant_element(v.type))}
        moves = op.name in movement.KERNELS or op.name in indexing.KERNELS
        mixes = isinstance(op, nn.ConcatOp | nn.InsertOp) and len(known) > 1
        if not (moves and mixes):
            return False
    return arithmetic_of(op).floats("f32") is not None


def evaluate_in_floats(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation, kernel: Kernel
) -> list[Array]:
    """The codes of the results."""
    floats = [
        value if (q := quant_element(v.type)) is None else casts.dequantized(value, q.qparams)
        for value, v in zip(operands, op.operands, strict=True)
    ]
    if isinstance(op, RescaleOp):
        results: Sequence[Array] = floats
        rounding = op.rounding
    else:
        values = Block(arg_types=[_expressed(v.type) for v in op.operands]).args
        copy = type(op).create(
            operands=values,
            result_types=[_expressed(v.type) for v in op.results],
            properties=op.properties,
            attributes=op.attributes,
            location=op.location,
        )
        results = kernel(copy, floats, evaluation)
        rounding = rounding_of(op)
    found: list[Array] = []
    for value, result in zip(results, op.results, strict=True):
        element = quant_element(result.type)
        assert element is not None
        found.append(casts.quantized(value, element.qparams, rounding))
    return found


def _expressed(kind: Attribute) -> Attribute:
    element = quant_element(kind)
    return kind if element is None else with_element(kind, expressed_type(element.qparams))
