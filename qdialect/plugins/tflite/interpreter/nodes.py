"""Ops of TFLite files that `nn` has no counterpart of, as LiteRT computes them in all resolvers.

A file is raised to `nn`; what stays a `tflite.node` is laid out as in the file.

    SQUARED_DIFFERENCE    g((g(2^7 a, s_a / S) - g(2^7 b, s_b / S))^2, S^2 / (2^14 s_y)) + z_y
                          of bytes, S = 2 max(s_a, s_b), g gemmlowp
    pseudo_variable       a variable before the first run: the zero point, or 0
    UNIDIRECTIONAL_SEQUENCE_LSTM of bytes: `recurrent`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from qdialect.errors import UnsupportedError
from qdialect.interpreter.values import Array, Evaluation, Kernel, declared_shape
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import quant_element
from qdialect.plugins.tflite.dialect import VARIABLE, TfliteNodeOp
from qdialect.plugins.tflite.interpreter import Row, recurrent
from qdialect.plugins.tflite.interpreter.fixed_point import gemmlowp, quantize_multiplier
from qdialect.plugins.tflite.interpreter.per_tensor import Codes, Integers, codes_row

_LEFT = 7


def _squared_difference(op: Operation, operands: Sequence[Array], found: Sequence[Codes]) -> Any:
    a, b, to = found
    common = 2 * float(max(a.scale, b.scale))

    def on_common(codes: Array, one: Codes) -> Integers:
        pair = quantize_multiplier(float(one.scale) / common)
        return gemmlowp(one.steps(codes) << _LEFT, *pair)

    difference = on_common(operands[0], a) - on_common(operands[1], b)
    unit = common * common / float(np.float32(1 << 2 * _LEFT) * to.scale)
    return gemmlowp(difference * difference, *quantize_multiplier(unit)) + to.zero


def _variable(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    kind = op.results[0].type
    shape = declared_shape(kind)
    if DYNAMIC in shape:
        raise UnsupportedError("a variable of unknown shape has no value before the first run")
    element = quant_element(kind)
    fill = 0 if element is None else int(element.qparams.zero_point_array().reshape(-1)[0])
    return [np.full(shape, fill, evaluation.dtype(kind))]


NODES: Mapping[str, Row] = {
    **recurrent.NODES,
    "SQUARED_DIFFERENCE": codes_row(_squared_difference, "i8"),
    VARIABLE: _variable,
}
"""By the names of ops of files."""


def _node(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> Sequence[Array]:
    """The results of a node; UnsupportedError where nobody has said what they are."""
    assert isinstance(op, TfliteNodeOp)
    row = NODES.get(op.op.data)
    found = None if row is None else row(op, operands, evaluation)
    if found is None:
        raise UnsupportedError(
            f"the interpreter does not know what LiteRT computes for '{op.op.data}' of "
            + ", ".join(str(value.type) for value in (*op.operands, *op.results)),
        )
    return found


KERNELS: Mapping[str, Kernel] = {TfliteNodeOp.name: _node}
"""The kernel of nodes of files."""
