"""LSTM and GRU: the whole sequence at once, with the usual activations.

Stays an ONNX node: a final cell state (`Y_c`) that is used, sequences of different
lengths, a clip, other activations, an input gate tied to the forget gate, layout 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from qdialect import ops as nn
from qdialect.formats.onnx.read.compute import Results, Rule, float_shapes
from qdialect.formats.onnx.read.node import Node
from qdialect.ops.keys import KEY
from qdialect.ops.shapes import DYNAMIC
from qdialect.quant import element_type

if TYPE_CHECKING:
    from qdialect.formats.onnx.read.importer import Importer

_INPUTS = 5
"""Where initial states begin: after X, W, R, B and sequence_lens."""
_END = 2**31 - 1


def _has_common_form(node: Node, activations: Sequence[str]) -> bool:
    given: Sequence[Any] = node.get("activations", ())
    names = [a.decode() if isinstance(a, bytes) else str(a) for a in given]
    ways = len(names) // len(activations)
    return (
        [name.lower() for name in names] == [*activations] * ways
        and "clip" not in node.attributes
        and not node.get("input_forget", 0)
        and not node.get("layout", 0)
        and not node.output(2)
    )


def _has_full_lengths(imp: Importer, node: Node, steps: int) -> bool:
    if not node.input(4):
        return True
    lengths = imp.static(node.input(4))
    return lengths is not None and steps != DYNAMIC and bool((lengths == steps).all())


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
        (steps, batch, _), weight, recurrence = shapes[:3]
        if DYNAMIC in (*weight, *recurrence) or not _has_full_lengths(imp, node, steps):
            return None
        if node.output(1) and steps in (DYNAMIC, 0):
            return None
        operands = _operands(imp, node, kind, (weight[0], batch, recurrence[2]))
        if operands is None:
            return None
        properties: dict[str, Any] = {"direction": _text(node.get("direction", "forward"))}
        if kind is nn.GruOp:
            properties["linear_before_reset"] = bool(node.get("linear_before_reset", 0))
        node.names_inputs = False
        found = imp.build(kind, *operands, output=node.output(0), **properties)
        if not node.output(1):
            return [found]
        last = _final(imp, found, properties["direction"])
        if node.output(0):
            return [found, last]
        cast("Operation", found.owner).attributes[KEY] = StringAttr(f"{node.key}_sequence")
        return [last]

    return rule


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _operands(
    imp: Importer, node: Node, kind: type[nn.LstmOp | nn.GruOp], state: tuple[int, int, int]
) -> list[SSAValue] | None:
    """The operands of the op, zeros in place of absent ones in between."""
    dirs, batch, hidden = state
    states = [node.input(i) for i in range(_INPUTS, _INPUTS + len(kind.STATES))]
    peepholes = node.input(_INPUTS + len(kind.STATES))
    x, *weights = (imp.value(node.input(i)) for i in range(3))
    operands = [x, *weights]
    bias = node.input(3)
    rows = 2 * kind.GATES * hidden
    operands.append(imp.value(bias) if bias else _zeros(imp, x, (dirs, rows)))
    if not any(states) and not peepholes:
        return operands
    if batch == DYNAMIC and not all(states):
        return None
    operands += [imp.value(name) if name else _zeros(imp, x, state) for name in states]
    return [*operands, imp.value(peepholes)] if peepholes else operands


def _zeros(imp: Importer, like: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    import numpy as np

    element = element_type(like.type)
    kinds = {"f16": np.float16, "f64": np.float64, "bf16": np.uint16}
    zeros = np.zeros(shape, kinds.get(str(element), np.float32))
    return imp.emit(nn.make_constant(zeros, element, imp.ctx.blobs)).results[0]


def _final(imp: Importer, states: SSAValue, direction: str) -> SSAValue:
    """`Y_h`, the state after the last step of each direction: [dirs, batch, h]."""

    def state(index: int, step: int) -> SSAValue:
        start, stop = (0, 1) if step == 0 else (-1, _END)
        taken = nn.SliceOp(
            states,
            starts=(start, index, 0, 0),
            stops=(stop, index + 1, _END, _END),
            steps=(1, 1, 1, 1),
        )
        return imp.emit(nn.SqueezeOp(imp.emit(taken).results[0], axes=(0,))).results[0]

    if direction == "bidirectional":
        return imp.emit(nn.ConcatOp(state(0, -1), state(1, 0), axis=0)).results[0]
    return state(0, 0 if direction == "reverse" else -1)
