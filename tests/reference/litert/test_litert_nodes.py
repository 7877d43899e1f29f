"""Ops of files that `nn` has no counterpart of: codes as LiteRT computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, IntegerType, TensorType
from xdsl.dialects.builtin import f32 as F32
from xdsl.ir import Attribute
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.qparams import QParams
from qdialect.errors import UnsupportedError
from qdialect.interpreter import evaluate_op
from qdialect.ir.quant import UniformType
from qdialect.plugins.tflite.dialect import INTERMEDIATES, VARIABLE, TfliteNodeOp
from tests.reference.litert.one_op import (
    CONTEXT,
    all_codes,
    element,
    in_litert,
    random_scale,
    random_zero,
)
from tests.support.tflite_models import LitertError, model, op, run_litert, tensor


def node(
    name: str, operands: Any, result: Attribute, options: dict[str, Attribute] | None = None
) -> TfliteNodeOp:
    """A node on values of these types; None is an absent one."""
    values = [None if kind is None else create_ssa_value(kind) for kind in operands]
    return TfliteNodeOp(name, values, [result], options)


@pytest.mark.parametrize("resolver", ["ref", "opt", "xnn"])
def test_squared_differences_of_all_pairs(resolver: str) -> None:
    rng = np.random.default_rng(2)
    done = 0
    for _ in range(12):
        pairs = np.stack(np.meshgrid(all_codes(np.int8)[0], all_codes(np.int8)[0]))
        operands = [
            (np.ascontiguousarray(pairs[k]), (random_scale(rng), random_zero(rng, np.int8)))
            for k in range(2)
        ]
        to = (np.int8, random_scale(rng), random_zero(rng, np.int8))
        if 4 * max(s for _, (s, _) in operands) ** 2 >= 2**14 * to[1]:
            continue
        expected, _ = in_litert("SQUARED_DIFFERENCE", operands, to, resolver)
        types = [TensorType(element(c.dtype, *q), c.shape) for c, q in operands]
        built = node("SQUARED_DIFFERENCE", types, TensorType(element(*to), expected.shape))
        (found,) = evaluate_op(built, [c for c, _ in operands], CONTEXT)
        assert np.array_equal(found, expected)
        done += 1
    assert done > 6


def test_variables_are_zero_before_the_first_run() -> None:
    kind = TensorType(element(np.int8, 0.1, 7), (2, 3))
    (found,) = evaluate_op(TfliteNodeOp(VARIABLE, [], [kind]), [], CONTEXT)
    assert np.array_equal(found, np.full((2, 3), 7, np.int8))
    (plain,) = evaluate_op(TfliteNodeOp(VARIABLE, [], [TensorType(F32, (2,))]), [], CONTEXT)
    assert np.array_equal(plain, np.zeros(2, np.float32))


def test_an_unknown_node_is_refused() -> None:
    kind = TensorType(element(np.int8, 0.1, 7), (2,))
    with pytest.raises(UnsupportedError, match="what LiteRT computes for 'L2_NORMALIZATION'"):
        evaluate_op(node("L2_NORMALIZATION", [kind], kind), [np.zeros(2, np.int8)], CONTEXT)
    short = TensorType(element(np.int16, 0.1, 0), (2,))
    with pytest.raises(UnsupportedError, match="SQUARED_DIFFERENCE"):
        evaluate_op(
            node("SQUARED_DIFFERENCE", [short, short], short), [np.zeros(2, np.int16)] * 2, CONTEXT
        )


# -- LSTM -------------------------------------------------------------------------------


class Layer:
    """A random layer, as a file and as a node."""

    def __init__(self, rng: np.random.Generator, **given: Any) -> None:
        self.rng = rng
        self.coupled, self.projects = given["coupled"], given["projects"]
        self.major, self.clip = given["major"], given["clip"]
        self.batch, self.steps, self.depth, self.cells = (int(n) for n in rng.integers(1, 9, 4))
        self.out = int(rng.integers(1, 6)) if self.projects else self.cells
        self.x = (float(np.float32(rng.uniform(0.005, 0.05))), int(rng.integers(-20, 20)))
        self.state = (float(np.float32(rng.uniform(0.004, 0.01))), int(rng.integers(-20, 20)))
        self.cell = 2.0 ** -int(rng.integers(9, 15))
        hidden = (float(np.float32(rng.uniform(0.004, 0.01))), int(rng.integers(-9, 9)))
        self.hidden = hidden if self.projects else self.state
        self.tensors: dict[int, dict[str, Any]] = {}
        self.types: dict[int, Any] = {}
        for gate in range(1 if self.coupled else 0, 4):
            self.weight(1 + gate, (self.cells, self.depth))
            self.weight(5 + gate, (self.cells, self.out))
            self.bias(12 + gate, self.cells)
        if self.projects:
            self.weight(16, (self.out, self.cells))
            self.bias(17, self.out)

    def weight(self, place: int, shape: tuple[int, int]) -> None:
        scale = float(np.float32(self.rng.uniform(0.003, 0.03)))
        data = self.rng.integers(-127, 128, shape).astype(np.int8)
        self.tensors[place] = tensor(f"t{place}", shape, "INT8", [scale], data=data)
        self.types[place] = TensorType(UniformType(QParams.per_tensor("i8", scale)), shape)

    def bias(self, place: int, count: int) -> None:
        data = self.rng.integers(-3000, 3000, count).astype(np.int32)
        self.tensors[place] = tensor(f"t{place}", (count,), "INT32", [1e-4], data=data)
        self.types[place] = TensorType(UniformType(QParams.per_tensor("i32", 1e-4)), (count,))

    def shape(self, last: int) -> tuple[int, int, int]:
        first = (self.steps, self.batch) if self.major else (self.batch, self.steps)
        return (*first, last)

    def file(self) -> bytes:
        x = tensor("x", self.shape(self.depth), "INT8", [self.x[0]], [self.x[1]])
        y = tensor("y", self.shape(self.out), "INT8", [self.state[0]], [self.state[1]])
        states = [
            tensor(
                *("h", (self.batch, self.out), "INT8", [self.state[0]], [self.state[1]]),
                variable=True,
            ),
            tensor("c", (self.batch, self.cells), "INT16", [self.cell], [0], variable=True),
        ]
        within = [tensor(f"i{n}", (0,), "FLOAT32") for n in range(4)]
        within.append(tensor("i4", (0,), "INT8", [self.hidden[0]], [self.hidden[1]]))
        names = [f"t{n}" if n in self.tensors else "" for n in range(24)]
        names[0], names[18], names[19] = "x", "h", "c"
        options = {
            "fused_activation_function": "TANH",
            "cell_clip": self.clip,
            "proj_clip": self.clip / 8,
            "time_major": self.major,
        }
        made = op(
            *("UNIDIRECTIONAL_SEQUENCE_LSTM", names, ["y"], options),
            intermediates=[t["name"] for t in within],
        )
        return model([x], [y], [made], [*self.tensors.values(), *states, *within])

    def node(self) -> tuple[TfliteNodeOp, list[np.ndarray]]:
        """The node, and all operands but the first."""
        types: list[Any] = [self.types.get(n) for n in range(24)]
        types[0] = TensorType(element(np.int8, *self.x), self.shape(self.depth))
        types[18] = TensorType(element(np.int8, *self.state), (self.batch, self.out))
        types[19] = TensorType(element(np.int16, self.cell, 0), (self.batch, self.cells))
        flag = IntegerAttr(int(self.major), IntegerType(1))
        options: dict[str, Attribute] = {
            "cell_clip": FloatAttr(self.clip, F32),
            "proj_clip": FloatAttr(self.clip / 8, F32),
            "time_major": flag,
        }
        result = TensorType(element(np.int8, *self.state), self.shape(self.out))
        built = node("UNIDIRECTIONAL_SEQUENCE_LSTM", types, result, options)
        hidden = TensorType(element(np.int8, *self.hidden), (0,))
        built.attributes[INTERMEDIATES] = ArrayAttr([TensorType(F32, (0,))] * 4 + [hidden])
        given = {n: t["data"] for n, t in self.tensors.items()}
        given[18] = np.full((self.batch, self.out), self.state[1], np.int8)
        given[19] = np.zeros((self.batch, self.cells), np.int16)
        return built, [given[n] for n in sorted(given)]


@pytest.mark.parametrize("clip", [0.0, 0.7])
@pytest.mark.parametrize("projects", [False, True])
@pytest.mark.parametrize("coupled", [False, True])
def test_lstm(coupled: bool, projects: bool, clip: float) -> None:
    rng = np.random.default_rng(4)
    done = 0
    for number in range(12):
        layer = Layer(rng, coupled=coupled, projects=projects, clip=clip, major=bool(number % 2))
        x = rng.integers(-128, 128, layer.shape(layer.depth)).astype(np.int8)
        try:
            (expected,) = run_litert(layer.file(), [x], "opt")
        except LitertError:
            continue
        built, others = layer.node()
        (found,) = evaluate_op(built, [x, *others], CONTEXT)
        assert np.array_equal(found, expected), number
        done += 1
    assert done > 6
