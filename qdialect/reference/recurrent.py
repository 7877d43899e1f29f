"""The kernels of LSTM and GRU, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from qdialect import ops as nn
from qdialect.reference.quantize import is_quantized, load, plain, properties, stored, widened
from qdialect.reference.real import Real
from qdialect.reference.values import Array, Evaluation, Kernel

#: the hidden states of one direction, [steps, batch, h], from its slices of the operands
Direction = Callable[[Operation, Sequence[Array]], Array]


def _kernel(direction: Direction) -> Kernel:
    """Each direction by itself; in float64 with quantized types."""

    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        if is_quantized(op):
            reals = [load(v, o.type).approx for v, o in zip(operands, op.operands, strict=True)]
            return stored(op, Real.floats(_both(op, reals, direction)), evaluation)
        floats = [np.asarray(widened(v)) for v in operands]
        return plain(op, _both(op, floats, direction), evaluation)

    return kernel


def _both(op: Operation, operands: Sequence[Array], direction: Direction) -> Array:
    x, *rest = operands
    way = properties(op)["direction"]
    found: list[Array] = []
    for index in range(len(rest[0])):
        backwards = way == "reverse" or index == 1
        states = direction(op, [x[::-1] if backwards else x, *(array[index] for array in rest)])
        found.append(states[::-1] if backwards else states)
    return np.stack(found, axis=1)


def _logistic(x: Array) -> Array:
    small: Array = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _lstm(op: Operation, operands: Sequence[Array]) -> Array:
    x, weight, recurrence, bias, *more = operands
    size = recurrence.shape[1]
    rows = 4 * size
    hidden = cell = np.zeros((x.shape[1], size), x.dtype)
    if more:
        hidden, cell = more[:2]
    peep_i, peep_o, peep_f = (more[2] if len(more) > 2 else np.zeros(3 * size, x.dtype)).reshape(
        3, size
    )
    found: list[Array] = []
    for now in x:
        total = now @ weight.T + hidden @ recurrence.T + (bias[:rows] + bias[rows:])
        into, out, forget, new = np.split(total, 4, axis=1)
        remembered = _logistic(forget + peep_f * cell) * cell
        cell = remembered + _logistic(into + peep_i * cell) * np.tanh(new)
        hidden = _logistic(out + peep_o * cell) * np.tanh(cell)
        found.append(hidden)
    return np.array(found, x.dtype).reshape(len(x), x.shape[1], size)


def _gru(op: Operation, operands: Sequence[Array]) -> Array:
    x, weight, recurrence, bias, *more = operands
    size = recurrence.shape[1]
    hidden = more[0] if more else np.zeros((x.shape[1], size), x.dtype)
    w_z, w_r, w_n = weight.reshape(3, size, weight.shape[1])
    r_z, r_r, r_n = recurrence.reshape(3, size, size)
    b = bias.reshape(6, size)
    found: list[Array] = []
    for now in x:
        update = _logistic(now @ w_z.T + hidden @ r_z.T + b[0] + b[3])
        reset = _logistic(now @ w_r.T + hidden @ r_r.T + b[1] + b[4])
        if properties(op)["linear_before_reset"]:
            past = reset * (hidden @ r_n.T + b[5])
        else:
            past = (reset * hidden) @ r_n.T + b[5]
        new = np.tanh(now @ w_n.T + b[2] + past)
        hidden = (1 - update) * new + update * hidden
        found.append(hidden)
    return np.array(found, x.dtype).reshape(len(x), x.shape[1], size)


KERNELS: Mapping[str, Kernel] = {
    nn.LstmOp.name: _kernel(_lstm),
    nn.GruOp.name: _kernel(_gru),
}
