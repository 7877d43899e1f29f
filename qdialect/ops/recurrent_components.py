"""What LSTM and GRU are made of: their steps, written one after the other.

A role names the values of all steps and directions, which share their qparams. An absent
initial state is a row of zeros, whatever the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from xdsl.ir import Operation, SSAValue

from qdialect.behaviors.shapes import shape_of
from qdialect.ops.contraction import FullyConnectedOp
from qdialect.ops.elementwise import AddOp, MulOp, SubOp
from qdialect.ops.functions import SigmoidOp, TanhOp
from qdialect.ops.shapes import DYNAMIC

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.ops.base import NNOp
    from qdialect.ops.components import Pieces

#: sequences of more steps stay whole: each step is a dozen ops
STEP_LIMIT = 256
_END = 2**31 - 1

_LSTM = ("from_input", "from_hidden", "total", "biased")
_LSTM_GATES = ("gate_i", "gate_f", "gate_g")
_LSTM_CELL = ("kept", "new", "cell")
_LSTM_END = ("gate_o", "tanh_cell", "hidden", "result")
LSTM_ROLES = (
    *(*_LSTM, "peep_i", "into_i", "peep_f", "into_f", *_LSTM_GATES),
    *(*_LSTM_CELL, "peep_o", "into_o", *_LSTM_END),
)


def lstm_roles(op: Operation) -> tuple[str, ...]:
    if len(op.operands) > 6:
        return LSTM_ROLES
    return (*_LSTM, *_LSTM_GATES, *_LSTM_CELL, *_LSTM_END)


_GRU_SHARED = ("from_input", "from_hidden", "biased_input", "biased_hidden", "total")
_GRU_END = ("sum_n", "candidate", "update", "kept", "new", "hidden", "result")
GRU_ROLES = (*(*_GRU_SHARED, "gate_z", "gate_r", "reset", "from_reset", "biased_reset", *_GRU_END),)


def gru_roles(op: Operation) -> tuple[str, ...]:
    if cast("NNOp", op).values["linear_before_reset"]:
        return (*_GRU_SHARED, "gate_z", "gate_r", "reset", *_GRU_END)
    return GRU_ROLES


class _Step(Protocol):
    """One step: the hidden state after it, and what else is carried to the next."""

    def __call__(
        self, pieces: Pieces, x: SSAValue, states: Sequence[SSAValue], layer: _Layer, /
    ) -> list[SSAValue]: ...


class _Layer:
    """The operands of one direction; `bias` and `peepholes` as numbers."""

    def __init__(self, op: Operation, pieces: Pieces, index: int) -> None:
        self.hidden = shape_of(op.operands[2])[2]
        self.linear = cast("NNOp", op).values.get("linear_before_reset", False)
        self.weight, self.recurrence = (_at(pieces, value, index) for value in op.operands[1:3])
        bias = pieces.array(op.operands[3])
        assert bias is not None
        self.bias: NDArray[np.float64] = bias[index]
        more = op.operands[6:]
        numbers = pieces.array(more[0]) if more else None
        self.peepholes = None if numbers is None else numbers[index].reshape(3, self.hidden)


def _at(pieces: Pieces, value: SSAValue, index: int) -> SSAValue:
    """value[index]."""
    from qdialect.ops.movement import SliceOp, SqueezeOp

    rank = len(shape_of(value))
    taken = SliceOp(
        value,
        starts=(index, *(0,) * (rank - 1)),
        stops=(index + 1, *(_END,) * (rank - 1)),
        steps=(1,) * rank,
    )
    return pieces.emit(SqueezeOp(pieces.emit(taken), axes=(0,)))


def _columns(pieces: Pieces, value: SSAValue, size: int, first: int, last: int) -> SSAValue:
    """The columns of gates `first` up to `last`."""
    from qdialect.ops.movement import SliceOp

    taken = SliceOp(value, starts=(0, first * size), stops=(_END, last * size), steps=(1, 1))
    return pieces.emit(taken)


def _rows(pieces: Pieces, value: SSAValue, size: int, first: int, last: int) -> SSAValue:
    """The rows of gates `first` up to `last`."""
    from qdialect.ops.movement import SliceOp

    taken = SliceOp(value, starts=(first * size, 0), stops=(last * size, _END), steps=(1, 1))
    return pieces.emit(taken)


def _initial(op: Operation, pieces: Pieces, position: int, index: int) -> SSAValue:
    import numpy as np

    if position >= len(op.operands):
        return pieces.constant(np.zeros((1, shape_of(op.operands[2])[2])))
    array = pieces.array(op.operands[position])
    if array is not None:
        return pieces.constant(array[index])
    return _at(pieces, pieces.plain(op.operands[position]), index)


def _unrolled(op: Operation, pieces: Pieces, states: int, step: _Step) -> SSAValue | None:
    from qdialect.ops.movement import ConcatOp, UnsqueezeOp

    steps = shape_of(op.operands[0])[0]
    fixed = [op.operands[3], *op.operands[6:]]
    if steps == DYNAMIC or not 0 < steps <= STEP_LIMIT:
        return None
    if any(pieces.array(value) is None for value in fixed):
        return None
    found: list[list[SSAValue]] = [[] for _ in range(steps)]
    way = cast("NNOp", op).values["direction"]
    now = [_at(pieces, op.operands[0], t) for t in range(steps)]
    for index in range(shape_of(op.operands[1])[0]):
        layer = _Layer(op, pieces, index)
        carried = [_initial(op, pieces, 4 + n, index) for n in range(states)]
        order = range(steps) if way != "reverse" and index == 0 else reversed(range(steps))
        for t in order:
            carried = step(pieces, now[t], carried, layer)
            found[t].append(pieces.emit(UnsqueezeOp(carried[0], axes=(0, 1))))
    both = [v[0] if len(v) == 1 else pieces.emit(ConcatOp(*v, axis=1)) for v in found]
    return pieces.add("result", ConcatOp(*both, axis=0))


def _lstm_step(
    pieces: Pieces, x: SSAValue, states: Sequence[SSAValue], layer: _Layer, /
) -> list[SSAValue]:
    hidden, cell = states
    size, p = layer.hidden, layer.peepholes
    rows = 4 * size

    def peeped(gate: SSAValue, name: str, row: int, state: SSAValue) -> SSAValue:
        if p is None:
            return gate
        peep = pieces.add(f"peep_{name}", MulOp(state, pieces.constant(p[row])))
        return pieces.add(f"into_{name}", AddOp(gate, peep))

    from_input = pieces.add("from_input", FullyConnectedOp(x, layer.weight))
    from_hidden = pieces.add("from_hidden", FullyConnectedOp(hidden, layer.recurrence))
    total = pieces.add("total", AddOp(from_input, from_hidden))
    bias = pieces.constant(layer.bias[:rows] + layer.bias[rows:])
    biased = pieces.add("biased", AddOp(total, bias))
    into, out, forget, new = (_columns(pieces, biased, size, n, n + 1) for n in range(4))
    gate_i = pieces.add("gate_i", SigmoidOp(peeped(into, "i", 0, cell)))
    gate_f = pieces.add("gate_f", SigmoidOp(peeped(forget, "f", 2, cell)))
    gate_g = pieces.add("gate_g", TanhOp(new))
    kept = pieces.add("kept", MulOp(gate_f, cell))
    cell = pieces.add("cell", AddOp(kept, pieces.add("new", MulOp(gate_i, gate_g))))
    gate_o = pieces.add("gate_o", SigmoidOp(peeped(out, "o", 1, cell)))
    return [pieces.add("hidden", MulOp(gate_o, pieces.add("tanh_cell", TanhOp(cell)))), cell]


def _gru_step(
    pieces: Pieces, x: SSAValue, states: Sequence[SSAValue], layer: _Layer, /
) -> list[SSAValue]:
    (hidden,) = states
    size, bias = layer.hidden, layer.bias
    rows = 3 * size
    from_input = pieces.add("from_input", FullyConnectedOp(x, layer.weight))
    here = pieces.add("biased_input", AddOp(from_input, pieces.constant(bias[:rows])))
    seen = 3 if layer.linear else 2
    recurrence = _rows(pieces, layer.recurrence, size, 0, seen)
    from_hidden = pieces.add("from_hidden", FullyConnectedOp(hidden, recurrence))
    past_bias = pieces.constant(bias[rows : rows + seen * size])
    past = pieces.add("biased_hidden", AddOp(from_hidden, past_bias))
    both = [_columns(pieces, value, size, 0, 2) for value in (here, past)]
    total = pieces.add("total", AddOp(*both))
    gate_z = pieces.add("gate_z", SigmoidOp(_columns(pieces, total, size, 0, 1)))
    gate_r = pieces.add("gate_r", SigmoidOp(_columns(pieces, total, size, 1, 2)))
    if layer.linear:
        more = pieces.add("reset", MulOp(gate_r, _columns(pieces, past, size, 2, 3)))
    else:
        reset = pieces.add("reset", MulOp(gate_r, hidden))
        weight = _rows(pieces, layer.recurrence, size, 2, 3)
        product = pieces.add("from_reset", FullyConnectedOp(reset, weight))
        last = pieces.constant(bias[rows + 2 * size :])
        more = pieces.add("biased_reset", AddOp(product, last))
    summed = pieces.add("sum_n", AddOp(_columns(pieces, here, size, 2, 3), more))
    candidate = pieces.add("candidate", TanhOp(summed))
    update = pieces.add("update", SubOp(pieces.number(1.0), gate_z))
    kept = pieces.add("kept", MulOp(gate_z, hidden))
    return [
        pieces.add("hidden", AddOp(pieces.add("new", MulOp(update, candidate)), kept)),
    ]


def lstm(op: Operation, pieces: Pieces) -> SSAValue | None:
    return _unrolled(op, pieces, 2, _lstm_step)


def gru(op: Operation, pieces: Pieces) -> SSAValue | None:
    return _unrolled(op, pieces, 1, _gru_step)
