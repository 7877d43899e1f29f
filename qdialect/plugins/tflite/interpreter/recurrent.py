"""UNIDIRECTIONAL_SEQUENCE_LSTM of codes: 8 bits in and out, gates and cell of 16.

With M of 31 bits, g gemmlowp, and sums that saturate in 16 bits:

    a       g(sum (x - z_x) w + bias, s_w s_x / 2^-12) + g(sum (h - z_h) r, s_r s_h / 2^-12)
    i f o   logistic(a), tanh(a) for the candidate, both in fixed point of 16 bits
    c'      f c / 2^15 + i n / 2^(30 + log2 s_c), each half away; clamped to the clip
    h'      g(o tanh(c'), 2^-30 / s_hidden) + z_hidden, then the projection, if there is one

A node keeps its states from one run to the next; here they are operands, and a run is a first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation

from qdialect.interpreter.values import Array, Evaluation
from qdialect.ir.quant import quant_element
from qdialect.plugins.tflite.dialect import INTERMEDIATES, TfliteNodeOp
from qdialect.plugins.tflite.interpreter import Row, newton
from qdialect.plugins.tflite.interpreter.contraction import product
from qdialect.plugins.tflite.interpreter.fixed_point import gemmlowp, quantize_multiplier
from qdialect.plugins.tflite.interpreter.per_tensor import Codes, Integers, codes_of

single: Any = np.float32
_WEIGHTS, _RECURRENCES, _PEEPHOLES, _BIASES = (1, 2, 3, 4), (5, 6, 7, 8), (9, 10, None, 11), 12
_PROJECTION, _PROJECTION_BIAS, _STATE, _CELL, _NORMS = 16, 17, 18, 19, (20, 21, 22, 23)
_FORGET, _CANDIDATE, _OUTPUT = 1, 2, 3
_GATE_SCALE = single(2.0**-12)


@dataclass(frozen=True)
class _Product:
    """Codes times a matrix of weights, on the scale of what it is added to."""

    weight: Integers
    bias: Any
    zero: int
    scale: float

    def __call__(self, x: Integers) -> Integers:
        """Rows of codes [batch, in] to steps [batch, out]."""
        sums = product(x - self.zero, self.weight.T) + self.bias
        return gemmlowp(sums, *quantize_multiplier(self.scale))


class _Layer:
    """The constants of a node, by the numbers of its inputs."""

    def __init__(self, op: TfliteNodeOp, operands: Sequence[Array]) -> None:
        given = iter(operands)
        self.op = op
        self.arguments = op.arguments
        self.arrays = [None if value is None else next(given) for value in self.arguments]
        self.arguments += [None] * (24 - len(self.arguments))
        self.arrays += [None] * (24 - len(self.arrays))

    def array(self, place: int) -> Integers:
        """An input as integers."""
        found = self.arrays[place]
        assert found is not None
        return found.astype(np.int64)

    def codes(self, place: int) -> Codes:
        """The qparams of an input."""
        value = self.arguments[place]
        found = None if value is None else codes_of(value)
        assert found is not None
        return found

    def has(self, place: int) -> bool:
        """Whether an input is there."""
        return self.arrays[place] is not None

    def is_known(self) -> bool:
        """Whether this is a layer of codes, without layer norms and peepholes."""
        types = {0: "i8", _STATE: "i8", _CELL: "i16"}
        for place, kind in types.items():
            value = self.arguments[place]
            found = None if value is None else codes_of(value)
            if found is None or found.type != kind:
                return False
        others = [place for place in (*_PEEPHOLES, *_NORMS) if place is not None]
        return not any(map(self.has, others)) and _hidden(self.op) is not None

    def gate(self, number: int, x: Integers, hidden: Integers) -> Integers:
        """The sum of one gate, of 16 bits."""
        weight, recurrence = _WEIGHTS[number], _RECURRENCES[number]
        bias = _BIASES + number
        total = np.zeros((len(x), len(self.array(weight))), np.int64)
        of_input = _Product(
            self.array(weight),
            self.array(bias) if self.has(bias) else 0,
            self.codes(0).zero,
            float(self.codes(weight).scale * self.codes(0).scale / _GATE_SCALE),
        )
        of_hidden = _Product(
            self.array(recurrence),
            0,
            self.codes(_STATE).zero,
            float(self.codes(recurrence).scale * self.codes(_STATE).scale / _GATE_SCALE),
        )
        for term, values in ((of_input, x), (of_hidden, hidden)):
            total = newton.saturated(total + term(values), 16)
        return total

    def step(self, x: Integers, hidden: Integers, cell: Integers) -> tuple[Integers, Integers]:
        """The states after a step of rows x."""
        exponent = int(np.rint(np.log2(self.codes(_CELL).scale)))
        forget = newton.logistic(self.gate(_FORGET, x, hidden), 3, 16)
        candidate = newton.tanh(self.gate(_CANDIDATE, x, hidden), 3, 16)
        if self.has(_WEIGHTS[0]):
            into = newton.logistic(self.gate(0, x, hidden), 3, 16)
        else:
            into = 32767 - forget
        kept = newton.wrapped(newton.divided(forget * cell, 15), 16)
        added = newton.wrapped(newton.divided(into * candidate, 30 + exponent), 16)
        cell = newton.saturated(kept + added, 16)
        clip = _clip(self.op, "cell_clip", self.codes(_CELL).scale, 32767)
        if clip > 0:
            cell = np.clip(cell, -clip, clip)
        output = newton.logistic(self.gate(_OUTPUT, x, hidden), 3, 16)
        return self.shown(output * newton.tanh(cell, 15 + exponent, 16)), cell

    def shown(self, values: Integers) -> Integers:
        """The hidden state, of products of 30 bits."""
        hidden = _hidden(self.op)
        assert hidden is not None
        unit = float(single(2.0**-15 / float(hidden.scale) * 2.0**-15))
        steps = gemmlowp(values, *quantize_multiplier(unit))
        if not self.has(_PROJECTION):
            return np.clip(steps + hidden.zero, -128, 127)
        codes, state = np.clip(steps - hidden.zero, -128, 127), self.codes(_STATE)
        scale = float(self.codes(_PROJECTION).scale * hidden.scale / state.scale)
        bias = self.array(_PROJECTION_BIAS) if self.has(_PROJECTION_BIAS) else 0
        projected = _Product(self.array(_PROJECTION), bias, -hidden.zero, scale)(codes)
        found = np.clip(projected + state.zero, -128, 127)
        output = codes_of(self.op.results[0])
        clip = 0 if output is None else _clip(self.op, "proj_clip", output.scale, 127)
        return np.clip(found, -clip, clip) if clip > 0 else found


def _hidden(op: Operation) -> Codes | None:
    """The qparams of the hidden state: those of the fifth value within the node."""
    given = op.attributes.get(INTERMEDIATES)
    types = list(cast("ArrayAttr[Attribute]", given)) if isinstance(given, ArrayAttr) else []
    element = quant_element(types[4]) if len(types) > 4 else None
    return None if element is None else Codes(element.qparams)


def _real(op: TfliteNodeOp, name: str) -> float:
    found = op.options.data.get(name)
    return float(found.value.data) if isinstance(found, FloatAttr) else 0.0


def _clip(op: TfliteNodeOp, name: str, scale: Any, most: int) -> int:
    bound = single(_real(op, name))
    return int(min(bound / scale, single(most))) if bound > 0 else 0


def _lstm(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation
) -> Sequence[Array] | None:
    assert isinstance(op, TfliteNodeOp)
    layer = _Layer(op, operands)
    if not layer.is_known():
        return None
    major = op.options.data.get("time_major")
    steps_first = isinstance(major, IntegerAttr) and bool(major.value.data)
    x = layer.array(0) if steps_first else layer.array(0).swapaxes(0, 1)
    hidden, cell = layer.array(_STATE), layer.array(_CELL)
    rows: list[Integers] = []
    for now in x:
        hidden, cell = layer.step(now, hidden, cell)
        rows.append(hidden)
    shown = np.array(rows).astype(np.int8)
    return [np.ascontiguousarray(shown if steps_first else shown.swapaxes(0, 1))]


NODES: Mapping[str, Row] = {"UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm}
"""By the names of ops of files; only LiteRT's optimized kernels have this one."""
