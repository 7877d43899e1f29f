"""Layers with a state, of floats: their states are 0 before the first step.

LiteRT keeps the states of a layer from one run to the next; what is raised is the first run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import f32

from qdialect.ir import ops as nn
from qdialect.ir.ops import shape_of
from qdialect.ir.quant import UniformType
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tflite.raising.node import Node, is_float
from qdialect.plugins.tflite.raising.raiser import Handler, Raiser

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_INPUT, _WEIGHTS, _RECURRENCES, _PEEPHOLES, _BIASES = 0, (1, 2, 3, 4), (5, 6, 7, 8), 9, 12
_PROJECTION, _STATES, _NORMS = (16, 17), (18, 19), (20, 21, 22, 23)
_GATES = (0, 3, 1, 2)
"""TFLite has the gates i, f, g, o; `nn.lstm` takes them as i, o, f, g."""


def lstm(r: Raiser, node: Node) -> Raised:
    """`UNIDIRECTIONAL_SEQUENCE_LSTM` of floats, without projection and layer norm."""
    x = node.input(_INPUT)
    _refuse(node, x)
    time_major = node.flag("time_major")
    order = (0, 1, 2) if time_major else (1, 0, 2)
    weights = [_floats(r, node, place) for place in _WEIGHTS]
    recurrences = [_floats(r, node, place) for place in _RECURRENCES]
    biases = [_floats(r, node, _BIASES + gate) for gate in range(4)]
    hidden = recurrences[1].shape[1]
    rows = [np.concatenate([part[g] for g in _GATES])[None] for part in (weights, recurrences)]
    bias = np.concatenate([biases[g] for g in _GATES] + [np.zeros(4 * hidden, np.float32)])[None]
    parts = [r.constant(np.ascontiguousarray(a), f32) for a in (*rows, bias)]
    value = r.value(x, order)
    parts += _peepholes(r, node, hidden, shape_of(value)[1])
    out = r.op(nn.LstmOp, value, *parts)
    # [steps, 1, batch, h] read as [steps, batch, h]
    return Raised(order, r.op(nn.SqueezeOp, out, axes=[1]))


def _refuse(node: Node, x: Raised) -> None:
    if not is_float(x):
        raise Unraisable("no-counterpart", "no op of ours rounds its gates as it does")
    if any(node.has(place) for place in (*_PROJECTION, *_NORMS)):
        raise Unraisable("no-counterpart", "it projects or normalizes its state")
    if node.activation != "TANH":
        raise Unraisable("no-counterpart", f"its activation is '{node.activation}'")
    # A cell grows by 1 at most in a step.
    steps = x.shape[0 if node.flag("time_major") else 1]
    clip = node.real("cell_clip")
    if clip and not 0 <= steps <= clip:
        raise Unraisable("no-counterpart", f"it clips its cell at {clip:g}, in {steps} steps")
    if not node.has(_WEIGHTS[0]):
        raise Unraisable("no-counterpart", "its input gate is its forget gate")
    for place in _STATES:
        state = node.inputs[place] if node.has(place) else None
        if state is not None and (state.array is None or np.any(state.array)):
            raise Unraisable("states", "its states before the first step are not 0")


def _floats(r: Raiser, node: Node, place: int) -> Floats:
    """A constant as floats; codes of weights are dequantized."""
    array, element = node.array(place), node.input(place).element
    if not isinstance(element, UniformType):
        return array.astype(np.float32)
    params = element.qparams
    if not params.is_per_tensor:
        raise Unraisable("axis", "its weights have several scales")
    if place == _WEIGHTS[0]:
        r.remark("weight-only", "its codes are taken as floats, and its operand as it is")
    steps: Any = array.astype(np.float32) - np.float32(params.zero_point)
    return steps * np.float32(params.scale)


def _peepholes(r: Raiser, node: Node, hidden: int, batch: int) -> Sequence[Any]:
    found = [node.has(_PEEPHOLES + k) for k in range(3)]
    if not any(found):
        return []
    if not all(found) or batch < 0:
        raise Unraisable("no-counterpart", "some of its gates do not see the cell")
    states = r.constant(np.zeros((1, batch, hidden), np.float32), f32)
    # TFLite: i, f, o; nn.lstm: i, o, f
    parts = [_floats(r, node, _PEEPHOLES + k) for k in (0, 2, 1)]
    return [states, states, r.constant(np.concatenate(parts)[None], f32)]


HANDLERS: Mapping[str, Handler] = {"UNIDIRECTIONAL_SEQUENCE_LSTM": lstm}
