"""What LSTM and GRU are made of: their steps, written one after the other.

A role names the values of all steps and directions, which share their qparams. An absent
initial state is a row of zeros, whatever the batch. Where sequences have lengths, a state past
the length of its own stays what it was, and the hidden state shown there is 0:

    %m = nn.compare %lengths, %t mode gt
    %h1 = nn.select %m, %hidden, %h0 {nn.key = "lstm/state_hidden"}
    %y1 = nn.select %m, %hidden, %zero {nn.key = "lstm/masked"}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from xdsl.ir import Operation, SSAValue

from qdialect.ir.behaviors.shapes import shape_of, tensor_type
from qdialect.ir.ops.components import NoPiecesError
from qdialect.ir.ops.constants import constant_array, constant_of, make_constant
from qdialect.ir.ops.contraction import FullyConnectedOp
from qdialect.ir.ops.elementwise import AddOp, MulOp, SubOp
from qdialect.ir.ops.functions import SigmoidOp, TanhOp
from qdialect.ir.ops.indexing import SelectOp
from qdialect.ir.ops.ordering import CompareOp
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import quant_element

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.ir.ops.base import NNOp
    from qdialect.ir.ops.components import Pieces

_END = 2**31 - 1
#: ops of a step of a direction that have no role: slices and other shapes
_SHAPED = 8

_STATES = ("state_hidden", "state_cell")
_MASKED = "masked"
LSTM_LAST = ("last_hidden", "last_cell")
GRU_LAST = LSTM_LAST[:1]

_LSTM = ("from_input", "from_hidden", "total", "biased")
_LSTM_GATES = ("gate_i", "gate_f", "gate_g")
_LSTM_CELL = ("kept", "new", "cell")
_LSTM_END = ("gate_o", "tanh_cell", "hidden")
LSTM_ROLES = (
    *(*_LSTM, "peep_i", "into_i", "peep_f", "into_f", *_LSTM_GATES),
    *(*_LSTM_CELL, "peep_o", "into_o", *_LSTM_END, *_STATES, _MASKED, *LSTM_LAST, "result"),
)


def lstm_roles(op: Operation) -> tuple[str, ...]:
    """The roles of the pieces that an LSTM has."""
    found = LSTM_ROLES
    if _operand(op, "peepholes") is None:
        found = (*_LSTM, *_LSTM_GATES, *_LSTM_CELL, *_LSTM_END)
    else:
        found = found[: found.index("hidden") + 1]
    return (*found, *_last_roles(op, _STATES, LSTM_LAST))


def _last_roles(op: Operation, states: Sequence[str], last: Sequence[str]) -> tuple[str, ...]:
    """The roles after the steps: states where there are lengths, last states, the result."""
    masked = (*states, _MASKED) if _operand(op, "lengths") is not None else ()
    return (*masked, *last[: len(op.results) - 1], "result")


def _operand(op: Operation, name: str) -> SSAValue | None:
    return cast("Any", op).operand_named(name)


_GRU_SHARED = ("from_input", "from_hidden", "biased_input", "biased_hidden", "total")
_GRU_END = ("sum_n", "candidate", "update", "kept", "new", "hidden")
GRU_ROLES = (
    *(*_GRU_SHARED, "gate_z", "gate_r", "reset", "from_reset", "biased_reset", *_GRU_END),
    *(*_STATES[:1], _MASKED, *GRU_LAST, "result"),
)


def gru_roles(op: Operation) -> tuple[str, ...]:
    """The roles of the pieces that a GRU has."""
    reset = ("reset", "from_reset", "biased_reset")
    if cast("NNOp", op).values["linear_before_reset"]:
        reset = reset[:1]
    steps = (*_GRU_SHARED, "gate_z", "gate_r", *reset, *_GRU_END)
    return (*steps, *_last_roles(op, _STATES[:1], GRU_LAST))


class _Step(Protocol):
    """One step: the states after it, the hidden one first."""

    def __call__(
        self, pieces: Pieces, x: SSAValue, states: Sequence[SSAValue], layer: _Layer, /
    ) -> list[SSAValue]: ...


class _Layer:
    """The operands of one direction; `bias` and `peepholes` as numbers. A GRU takes the rows of
    its gates and those of the candidate apart, unless the reset comes after the product."""

    gates: SSAValue
    candidate: SSAValue | None

    def __init__(self, op: Operation, pieces: Pieces, index: int) -> None:
        self.hidden = shape_of(op.operands[2])[2]
        self.linear = cast("NNOp", op).values.get("linear_before_reset", False)
        self.weight, self.recurrence = (_at(pieces, value, index) for value in op.operands[1:3])
        if op.name == "nn.gru":
            gates = 3 if self.linear else 2
            self.gates = _rows(pieces, self.recurrence, self.hidden, 0, gates)
            self.candidate = None
            if not self.linear:
                self.candidate = _rows(pieces, self.recurrence, self.hidden, 2, 3)
        bias = pieces.array(op.operands[3])
        assert bias is not None
        self.bias: NDArray[np.float64] = bias[index]
        peepholes = _operand(op, "peepholes")
        numbers = None if peepholes is None else pieces.array(peepholes)
        self.peepholes = None if numbers is None else numbers[index].reshape(3, self.hidden)


def _at(pieces: Pieces, value: SSAValue, index: int) -> SSAValue:
    """value[index]."""
    from qdialect.ir.ops.movement import SliceOp, SqueezeOp

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
    from qdialect.ir.ops.movement import SliceOp

    taken = SliceOp(value, starts=(0, first * size), stops=(_END, last * size), steps=(1, 1))
    return pieces.emit(taken)


def _rows(pieces: Pieces, value: SSAValue, size: int, first: int, last: int) -> SSAValue:
    """The rows of gates `first` up to `last`."""
    from qdialect.ir.ops.movement import SliceOp

    taken = SliceOp(value, starts=(first * size, 0), stops=(last * size, _END), steps=(1, 1))
    return pieces.emit(taken)


def _initial(op: Operation, pieces: Pieces, position: int, index: int) -> SSAValue:
    import numpy as np

    if position >= len(op.operands):
        return pieces.constant(np.zeros((1, shape_of(op.operands[2])[2])))
    state = op.operands[position]
    if quant_element(state.type) is not None:
        return _at(pieces, state, index)
    array = pieces.array(state)
    return (
        _at(pieces, pieces.plain(state), index) if array is None else pieces.constant(array[index])
    )


def _refuse(op: Operation, pieces: Pieces, roles: Sequence[str]) -> None:
    """NoPiecesError where the steps are not known, or are too many."""
    steps, directions = shape_of(op.operands[0])[0], shape_of(op.operands[1])[0]
    if steps == DYNAMIC:
        raise NoPiecesError("dynamic-shape", "how many steps it has is known when it runs only")
    if steps == 0:
        raise NoPiecesError("shape", "it has no steps")
    fixed = {"bias": op.operands[3]}
    if (peepholes := _operand(op, "peepholes")) is not None:
        fixed["peepholes"] = peepholes
    for name, value in fixed.items():
        if pieces.array(value) is None:
            raise NoPiecesError("constants", f"its {name} must be constant for its pieces")
    count = steps * directions * (len(roles) + _SHAPED)
    if count > pieces.most:
        raise NoPiecesError(
            "size",
            f"{steps} steps in {directions} direction{'s' * (directions > 1)} are about {count} "
            f"ops, and at most {pieces.most} may take the place of one",
        )


def _masks(op: Operation, pieces: Pieces, steps: int) -> list[SSAValue | None]:
    """Which sequences of the batch have each step, [batch, 1] of i1; None where all have it."""
    import numpy as np

    from qdialect.ir.ops.movement import UnsqueezeOp

    lengths = _operand(op, "lengths")
    if lengths is None:
        return [None] * steps
    constant, element = constant_of(lengths), tensor_type(lengths).element_type
    known = None if constant is None else constant_array(constant, pieces.store)
    width = 8 if str(element) in ("i8", "ui8") else int(str(element).lstrip("sui"))
    found: list[SSAValue | None] = []
    column: SSAValue | None = None
    for t in range(steps):
        if known is not None and (known > t).all():
            found.append(None)
            continue
        column = column or pieces.emit(UnsqueezeOp(lengths, axes=(1,)))
        number = make_constant(np.array(t, f"i{width // 8}"), element, pieces.store)
        found.append(pieces.emit(CompareOp(column, pieces.emit(number), "gt")))
    return found


def _unrolled(
    op: Operation, pieces: Pieces, roles: Sequence[str], last: Sequence[str], step: _Step
) -> Sequence[SSAValue]:
    import numpy as np

    from qdialect.ir.ops.movement import ConcatOp, UnsqueezeOp

    _refuse(op, pieces, roles)
    steps = shape_of(op.operands[0])[0]
    found: list[list[SSAValue]] = [[] for _ in range(steps)]
    ends: list[list[SSAValue]] = []
    way = cast("NNOp", op).values["direction"]
    now = [_at(pieces, op.operands[0], t) for t in range(steps)]
    masks = _masks(op, pieces, steps)
    for index in range(shape_of(op.operands[1])[0]):
        layer = _Layer(op, pieces, index)
        carried = [_initial(op, pieces, 4 + n, index) for n in range(len(last))]
        order = range(steps) if way != "reverse" and index == 0 else reversed(range(steps))
        for t in order:
            before, mask = carried, masks[t]
            carried = step(pieces, now[t], before, layer)
            shown = carried[0]
            if mask is not None:
                zero = pieces.constant(np.zeros((1, layer.hidden)))
                shown = _choose(pieces, _MASKED, mask, shown, zero)
                carried = [
                    _choose(pieces, role, mask, new, old)
                    for role, new, old in zip(_STATES, carried, before, strict=False)
                ]
            found[t].append(pieces.emit(UnsqueezeOp(shown, axes=(0, 1))))
        ends.append(carried)
    both = [v[0] if len(v) == 1 else pieces.emit(ConcatOp(*v, axis=1)) for v in found]
    results = [pieces.add("result", ConcatOp(*both, axis=0))]
    for role, states in zip(last[: len(op.results) - 1], zip(*ends, strict=True), strict=False):
        rows = [pieces.emit(UnsqueezeOp(v, axes=(0,))) for v in states]
        results.append(pieces.add(role, ConcatOp(*rows, axis=0)))
    return results


def _choose(
    pieces: Pieces, role: str, mask: SSAValue, value: SSAValue, other: SSAValue
) -> SSAValue:
    return pieces.add(role, SelectOp(mask, value, pieces.alike(other, value)))


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
    from_hidden = pieces.add("from_hidden", FullyConnectedOp(hidden, layer.gates))
    past_bias = pieces.constant(bias[rows : rows + seen * size])
    past = pieces.add("biased_hidden", AddOp(from_hidden, past_bias))
    both = [_columns(pieces, value, size, 0, 2) for value in (here, past)]
    total = pieces.add("total", AddOp(*both))
    gate_z = pieces.add("gate_z", SigmoidOp(_columns(pieces, total, size, 0, 1)))
    gate_r = pieces.add("gate_r", SigmoidOp(_columns(pieces, total, size, 1, 2)))
    if layer.candidate is None:
        more = pieces.add("reset", MulOp(gate_r, _columns(pieces, past, size, 2, 3)))
    else:
        reset = pieces.add("reset", MulOp(gate_r, hidden))
        product = pieces.add("from_reset", FullyConnectedOp(reset, layer.candidate))
        last = pieces.constant(bias[rows + 2 * size :])
        more = pieces.add("biased_reset", AddOp(product, last))
    summed = pieces.add("sum_n", AddOp(_columns(pieces, here, size, 2, 3), more))
    candidate = pieces.add("candidate", TanhOp(summed))
    update = pieces.add("update", SubOp(pieces.number(1.0), gate_z))
    kept = pieces.add("kept", MulOp(gate_z, hidden))
    return [
        pieces.add("hidden", AddOp(pieces.add("new", MulOp(update, candidate)), kept)),
    ]


def lstm(op: Operation, pieces: Pieces) -> Sequence[SSAValue]:
    """Write the pieces of an LSTM; NoPiecesError if its steps are not known or too many."""
    return _unrolled(op, pieces, lstm_roles(op), LSTM_LAST, _lstm_step)


def gru(op: Operation, pieces: Pieces) -> Sequence[SSAValue]:
    """Write the pieces of a GRU; NoPiecesError if its steps are not known or too many."""
    return _unrolled(op, pieces, gru_roles(op), GRU_LAST, _gru_step)
