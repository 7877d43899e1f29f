"""Bodies of reductions as functions of arrays.

A body combines scalars. If all its ops are elementwise it is computed on any number of elements
at once, with the kernels that compute it on scalars; else one element after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import Block, Region, SSAValue

from qdialect.interpreter.values import Array, op_name
from qdialect.plugins.stablehlo.interpreter import chlo, elementwise, quantized
from qdialect.plugins.stablehlo.interpreter.call import Call, Function
from qdialect.plugins.stablehlo.interpreter.literals import literal
from qdialect.plugins.stablehlo.interpreter.quantized import on_quantized


def _constant(call: Call, operands: Sequence[Array]) -> list[Array]:
    return [literal(call.require("value"), call.result_types[0], call.evaluation)]


_FUNCTIONS: Mapping[str, Function] = {
    f"{dialect}.{name}": on_quantized(name, function)
    for dialect, functions in (
        ("stablehlo", elementwise.FUNCTIONS),
        ("stablehlo", quantized.FUNCTIONS),
        ("stablehlo", {"constant": _constant}),
        ("chlo", chlo.CHLO),
    )
    for name, function in functions.items()
}
"""The ops that compute element by element, by their full names."""

Body = Callable[[Sequence[Array]], list[Array]]
"""From arrays of one shape, one for each argument, to those that the body returns."""


def body_of(call: Call, region: Region) -> Body:
    """The body that a region is."""
    block = region.blocks.first
    assert block is not None
    if is_elementwise(block):
        return lambda arguments: _at_once(call, block, arguments)
    return lambda arguments: _one_by_one(call, region, arguments)


def is_elementwise(block: Block) -> bool:
    """Whether each op of a block computes element by element, of values in the block."""
    inside = {*block.args, *(v for op in block.ops for v in op.results)}
    return all(
        (op_name(op) in _FUNCTIONS or op_name(op) == "stablehlo.return")
        and all(v in inside for v in op.operands)
        for op in block.ops
    )


def _at_once(call: Call, block: Block, arguments: Sequence[Array]) -> list[Array]:
    shape = np.broadcast_shapes(*(a.shape for a in arguments))
    values: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        operands = [values[v] for v in op.operands]
        if op_name(op) == "stablehlo.return":
            return [np.broadcast_to(v, shape) for v in operands]
        results = _FUNCTIONS[op_name(op)](Call.of(op, call.evaluation), operands)
        values.update(zip(op.results, results, strict=True))
    raise AssertionError("verified: a body ends in stablehlo.return")


def _one_by_one(call: Call, region: Region, arguments: Sequence[Array]) -> list[Array]:
    shape = np.broadcast_shapes(*(a.shape for a in arguments))
    flat = [np.broadcast_to(a, shape).reshape(-1) for a in arguments]
    rows = [call.run(region, [a[i].reshape(()) for a in flat]) for i in range(flat[0].size)]
    block = region.blocks.first
    assert block is not None and block.last_op is not None
    dtypes = [call.evaluation.dtype(v.type) for v in block.last_op.operands]
    columns = [
        np.array([np.asarray(row[k]).reshape(()) for row in rows], dtype).reshape(shape)
        for k, dtype in enumerate(dtypes)
    ]
    return columns
