"""LSTM and GRU: the whole sequence at once, with the usual activations.

Stays an ONNX node: a clip, other activations, an input gate tied to the forget gate, layout 1.
Lengths that are all that of the sequence are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import element_type
from qdialect.plugins.onnx.read.compute import Results, Rule, float_shapes
from qdialect.plugins.onnx.read.node import Node

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer

_INPUTS = 5
"""Where initial states begin: after X, W, R, B and sequence_lens."""


def _has_common_form(node: Node, activations: Sequence[str]) -> bool:
    given: Sequence[Any] = node.get("activations", ())
    names = [a.decode() if isinstance(a, bytes) else str(a) for a in given]
    ways = len(names) // len(activations)
    return (
        [name.lower() for name in names] == [*activations] * ways
        and "clip" not in node.attributes
        and not node.flag("input_forget", False)
        and not node.get("layout", 0)
    )


def _lengths(imp: Importer, node: Node, steps: int) -> SSAValue | None:
    """The operand `lengths`, unless each is known to be the number of steps."""
    if not node.input(4):
        return None
    known = imp.static(node.input(4))
    full = known is not None and steps != DYNAMIC and bool((known == steps).all())
    return None if full else imp.value(node.input(4))


def recurrent(kind: type[nn.LstmOp | nn.GruOp], *activations: str) -> Rule:
    """`LSTM` or `GRU`; see the module."""

    def rule(imp: Importer, node: Node) -> Results:
        names = [name for i, name in enumerate(node.inputs) if name and i != 4]
        if imp.opset < 7 or not all(map(node.input, range(3))):
            return None
        shapes = float_shapes(imp, names)
        if shapes is None or any(len(shape) != 3 for shape in shapes[:3]):
            return None
        if not _has_common_form(node, activations):
            return None
        (steps, _, _), weight, recurrence = shapes[:3]
        if DYNAMIC in (*weight, *recurrence):
            return None
        operands = _operands(imp, node, kind, weight[0], recurrence[2], steps)
        last = max((n for n in range(3) if node.output(n)), default=0)
        properties: dict[str, Any] = {
            "direction": _text(node.get("direction", "forward")),
            "last_states": last,
        }
        if kind is nn.GruOp:
            properties["linear_before_reset"] = node.flag("linear_before_reset", False)
        node.names_inputs = False
        op = kind(*operands, **properties)
        imp.shaped(op, node.output(0))
        return [op.results[n] for n in range(last + 1) if node.output(n)]

    return rule


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _operands(
    imp: Importer, node: Node, kind: type[nn.LstmOp | nn.GruOp], dirs: int, hidden: int, steps: int
) -> list[SSAValue]:
    """The operands of the op, zeros in place of absent ones in between."""
    states = [node.input(i) for i in range(_INPUTS, _INPUTS + len(kind.STATES))]
    peepholes = node.input(_INPUTS + len(kind.STATES)) if kind is nn.LstmOp else ""
    x, *weights = (imp.value(node.input(i)) for i in range(3))
    operands = [x, *weights]
    bias = node.input(3)
    rows = 2 * kind.GATES * hidden
    operands.append(imp.value(bias) if bias else _zeros(imp, x, (dirs, rows)))
    lengths = _lengths(imp, node, steps)
    if any(states) or peepholes or lengths is not None:
        zeros = (dirs, 1, hidden)
        operands += [imp.value(name) if name else _zeros(imp, x, zeros) for name in states]
    operands += [imp.value(peepholes)] if peepholes else []
    return operands if lengths is None else [*operands, lengths]


def _zeros(imp: Importer, like: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    import numpy as np

    element = element_type(like.type)
    kinds = {"f16": np.float16, "f64": np.float64, "bf16": np.uint16}
    zeros = np.zeros(shape, kinds.get(str(element), np.float32))
    return imp.emit(nn.make_constant(zeros, element, imp.ctx.blobs)).results[0]
