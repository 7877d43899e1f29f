"""The kernels of LSTM and GRU, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.ir import Operation

from qdialect.interpreter.quantize import (
    is_quantized,
    load,
    properties,
    rounding_of,
    store,
    widened,
)
from qdialect.interpreter.real import Real
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.ir import ops as nn

#: the states after each step of one direction: of `x` [steps, batch, in], from the slices of
#: the other operands and the states before, with which sequences have each step, [batch, 1]
Direction = Callable[
    [Operation, Array, "Sequence[Array]", "Sequence[Array]", "Sequence[Array | None]"],
    "list[Sequence[Array]]",
]


def _kernel(direction: Direction) -> Kernel:
    """Each direction by itself; in float64 with quantized types."""

    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        lengths = cast("nn.RecurrentOp", op).operand_named("lengths")
        counts = None if lengths is None else operands[-1]
        numbers = operands if counts is None else operands[:-1]
        types = [value.type for value in op.operands]
        if not is_quantized(op):
            floats = [np.asarray(widened(v)) for v in numbers]
            found = _both(op, floats, counts, direction)
            return [
                evaluation.as_float(array, result.type)
                for array, result in zip(found, op.results, strict=True)
            ]
        reals = [load(v, kind).approx for v, kind in zip(numbers, types, strict=False)]
        return [
            store(Real.floats(array), result.type, rounding_of(op), evaluation)
            for array, result in zip(_both(op, reals, counts, direction), op.results, strict=True)
        ]

    return kernel


def _both(
    op: Operation, operands: Sequence[Array], lengths: Array | None, direction: Direction
) -> list[Array]:
    """The results of the op: hidden states of all steps, then the last states."""
    x, weight, recurrence, bias, *more = operands
    way, count = properties(op)["direction"], len(cast("nn.RecurrentOp", op).STATES)
    steps, batch, hidden = len(x), x.shape[1], recurrence.shape[2]
    masks: list[Array | None] = [None] * steps
    if lengths is not None:
        masks = [(lengths > t)[:, None] for t in range(steps)]
    shown: list[Array] = []
    last: list[Sequence[Array]] = []
    for index in range(len(weight)):
        backwards = way == "reverse" or index == 1
        turn = slice(None, None, -1 if backwards else 1)
        zeros = np.zeros((batch, hidden), x.dtype)
        before: list[Array] = [zeros + state[index] for state in more[:count]] or [zeros] * count
        parts = [array[index] for array in (weight, recurrence, bias, *more[count:])]
        states = direction(op, x[turn], parts, before, masks[turn])
        rows = [
            now[0] if mask is None else np.where(mask, now[0], 0)
            for now, mask in zip(states, masks[turn], strict=True)
        ]
        array = np.array(rows, x.dtype).reshape(steps, batch, hidden)
        shown.append(array[turn])
        last.append(states[-1] if states else before)
    ends = [np.stack(arrays) for arrays in zip(*last, strict=True)]
    return [np.stack(shown, axis=1), *ends[: len(op.results) - 1]]


def _masked(mask: Array | None, new: Sequence[Array], old: Sequence[Array]) -> Sequence[Array]:
    """The states after a step that only some sequences of the batch have."""
    if mask is None:
        return new
    return [np.where(mask, a, b) for a, b in zip(new, old, strict=True)]


def _logistic(x: Array) -> Array:
    small: Array = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _lstm(
    op: Operation,
    x: Array,
    operands: Sequence[Array],
    states: Sequence[Array],
    masks: Sequence[Array | None],
) -> list[Sequence[Array]]:
    weight, recurrence, bias, *more = operands
    size = recurrence.shape[1]
    rows = 4 * size
    hidden, cell = states
    peep_i, peep_o, peep_f = (more[0] if more else np.zeros(3 * size, x.dtype)).reshape(3, size)
    found: list[Sequence[Array]] = []
    for now, mask in zip(x, masks, strict=True):
        total = now @ weight.T + hidden @ recurrence.T + (bias[:rows] + bias[rows:])
        into, out, forget, new = np.split(total, 4, axis=1)
        remembered = _logistic(forget + peep_f * cell) * cell
        cell_now = remembered + _logistic(into + peep_i * cell) * np.tanh(new)
        hidden_now = _logistic(out + peep_o * cell_now) * np.tanh(cell_now)
        hidden, cell = _masked(mask, (hidden_now, cell_now), (hidden, cell))
        found.append((hidden, cell))
    return found


def _gru(
    op: Operation,
    x: Array,
    operands: Sequence[Array],
    states: Sequence[Array],
    masks: Sequence[Array | None],
) -> list[Sequence[Array]]:
    weight, recurrence, bias = operands
    size = recurrence.shape[1]
    (hidden,) = states
    w_z, w_r, w_n = weight.reshape(3, size, weight.shape[1])
    r_z, r_r, r_n = recurrence.reshape(3, size, size)
    b = bias.reshape(6, size)
    found: list[Sequence[Array]] = []
    for now, mask in zip(x, masks, strict=True):
        update = _logistic(now @ w_z.T + hidden @ r_z.T + b[0] + b[3])
        reset = _logistic(now @ w_r.T + hidden @ r_r.T + b[1] + b[4])
        if properties(op)["linear_before_reset"]:
            past = reset * (hidden @ r_n.T + b[5])
        else:
            past = (reset * hidden) @ r_n.T + b[5]
        new = np.tanh(now @ w_n.T + b[2] + past)
        (hidden,) = _masked(mask, [(1 - update) * new + update * hidden], [hidden])
        found.append((hidden,))
    return found


KERNELS: Mapping[str, Kernel] = {
    nn.LstmOp.name: _kernel(_lstm),
    nn.GruOp.name: _kernel(_gru),
}
