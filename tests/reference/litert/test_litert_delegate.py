"""What XNNPACK takes, as the table says: random ops of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from litert_cases import model, op, scale, tensor, zero_point
from test_litert_arithmetic import MAKERS as ARITHMETIC
from test_litert_casts import MAKERS as CASTS
from test_litert_contraction import MAKERS as PRODUCTS
from test_litert_reduction import MAKERS as REDUCTIONS

from qdialect.ir.context import new_context
from qdialect.plugins.tflite.file.read import read_bytes
from qdialect.plugins.tflite.file.to_module import read_module
from qdialect.plugins.tflite.target_delegate import refusal
from tests.support.tflite_models import LitertError, litert_ops

Rng = np.random.Generator
TYPES = ["INT8", "UINT8", "FLOAT32", "INT16"]


def disagreement(data: bytes) -> str | None:
    """What LiteRT does otherwise than the table says; None where it does what that says, or
    loads the model in no engine."""
    ctx = new_context()
    module = read_module(read_bytes(data), ctx)
    (node,) = (o for o in module.walk() if o.name == "tflite.node")
    reason = refusal(node)
    try:
        taken = "DELEGATE" in litert_ops(data)
    except LitertError as error:
        if "XNNPACK" not in str(error) and "delegate" not in str(error):
            return None
        taken = True  # and then it fails
    return None if taken == (reason is None) else f"taken: {taken}, {reason}: {node}"


def some_tensor(rng: Rng, name: str, shape: Sequence[int], type: str, **named: Any) -> Any:
    """A tensor with random qparams where it has codes."""
    if type == "FLOAT32":
        return tensor(name, shape)
    zero = 0 if type == "INT16" else zero_point(rng, type)
    return tensor(name, shape, type, scale(rng, "far"), named.get("zero", zero))


VERSIONS = {"RESHAPE": 1, "EXPAND_DIMS": 1}
UNARY = [
    *("ABS", "CEIL", "COS", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LOG", "NEG", "RELU", "RELU6"),
    *("RELU_N1_TO_1", "RELU_0_TO_1", "ROUND", "RSQRT", "SIN", "SQRT", "SQUARE", "ELU", "LOGISTIC"),
    *("TANH", "LEAKY_RELU", "QUANTIZE", "DEQUANTIZE", "SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"),
]
BINARY = ["ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "PRELU", "POW"]


def unary(rng: Rng, name: str) -> bytes:
    """One operand, of any type and rank."""
    shape = (2,) * int(rng.integers(0, 8))
    source, target = rng.choice(TYPES, 2) if rng.integers(2) else [rng.choice(TYPES)] * 2
    x = some_tensor(rng, "x", shape, str(source))
    y = {**some_tensor(rng, "y", shape, str(target))}
    if rng.integers(2) and source == target:
        y = {**x, "name": "y"}
    options: dict[str, Any] = {}
    if name == "LEAKY_RELU":
        options = {"alpha": float(rng.choice([0.0, 0.1, -0.5, 3.0, 0.001, -200.0, 300.0]))}
    if name == "SOFTMAX":
        options = {"beta": float(rng.choice([1.0, 0.5]))}
    return model([x], [y], [op(name, ["x"], ["y"], options)])


def binary(rng: Rng, name: str) -> bytes:
    """Two operands."""
    shape = (2,) * int(rng.integers(0, 8))
    type = str(rng.choice(TYPES))
    a, b, y = (some_tensor(rng, n, shape, type) for n in "aby")
    options: dict[str, Any] = {}
    if name in ("ADD", "SUB", "MUL", "DIV"):
        found = rng.choice(["NONE", "RELU", "RELU6", "RELU_N1_TO_1", "TANH"])
        options = {"fused_activation_function": str(found)}
    others: list[Any] = []
    if rng.integers(2):
        dtype = type.lower()
        others = [b := {**b, "data": np.ones(shape, dtype)}]
    inputs = [a] if others else [a, b]
    return model(inputs, [y], [op(name, ["a", "b"], ["y"], options)], others)


def movement(rng: Rng, name: str) -> bytes:
    """What copies elements."""
    type = str(rng.choice(TYPES))
    x = some_tensor(rng, "x", (2, 4, 6, 8), type)
    same = bool(rng.integers(4))
    made = {**x} if same else some_tensor(rng, "y", (1,), type)
    shape: tuple[int, ...] = (2, 4, 6, 8)
    constants: list[np.ndarray] = []
    options: dict[str, Any] = {}
    inputs = ["x", "c0", "c1", "c2"]
    if name == "RESHAPE":
        shape = [(8, 48), (384,), (2, 2, 2, 2, 2, 12), (2, 2, 2, 2, 2, 2, 6)][rng.integers(4)]
        constants = [np.array(shape if rng.integers(3) else [-1], np.int32)]
        shape = shape if constants[0][0] != -1 else (384,)
    elif name == "TRANSPOSE":
        shape, constants = (2, 8, 4, 6), [np.array([0, 3, 1, 2], np.int32)]
    elif name == "PAD":
        constants = [np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32)]
        shape = (2, 7, 7, 8)
    elif name == "SLICE":
        sizes = [[1, 3, 6, 8], [-1, 3, 6, 8]][rng.integers(2)]
        constants = [np.array([0, 1, 0, 0], np.int32), np.array(sizes, np.int32)]
        shape = (sizes[0] if sizes[0] > 0 else 2, 3, 6, 8)
    elif name == "STRIDED_SLICE":
        step = int(rng.integers(1, 3))
        ends = [[0, 1, 0, 0], [2, 4, 6, 8], [1, 1, step, 1]]
        constants = [np.array(v, np.int32) for v in ends]
        shape = (2, 3, -(-6 // step), 8)
        if rng.integers(3) == 0:
            options, shape = {"shrink_axis_mask": 1}, shape[1:]
    elif name in ("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"):
        size = int(rng.choice([2, 2, 1]))
        options = {"block_size": size}
        deep = name == "SPACE_TO_DEPTH"
        height, width = (4 // size, 6 // size) if deep else (4 * size, 6 * size)
        shape = (2, height, width, 8 * size * size if deep else 8 // (size * size))
    elif name == "RESIZE_BILINEAR":
        constants, shape = [np.array([7, 9], np.int32)], (2, 7, 9, 8)
        options = {"half_pixel_centers": bool(rng.integers(2))}
    elif name == "EXPAND_DIMS":
        constants, shape = [np.array([0], np.int32)], (1, 2, 4, 6, 8)
    elif name == "SPLIT":
        count = int(rng.choice([2, 4, 8]))
        options, shape = {"num_splits": count}, (2, 4, 6, 8 // count)
        results = [{**made, "name": f"y{n}", "shape": shape} for n in range(count)]
        axis = tensor("c0", (1,), "INT32", data=np.array([3], np.int32))
        names = [str(y["name"]) for y in results]
        return model([x], results, [op("SPLIT", ["c0", "x"], names, options)], [axis])
    elif name == "CONCATENATION":
        count = int(rng.integers(1, 8))
        options = {"axis": int(rng.choice([0, 3, -1]))}
        shape = (2 * count, 4, 6, 8) if options["axis"] == 0 else (2, 4, 6, 8 * count)
        inputs = [f"x{n}" for n in range(count)]
        operands = [{**x, "name": n} for n in inputs]
        y = {**made, "name": "y", "shape": shape}
        return model(operands, [y], [op(name, inputs, ["y"], options)])
    y = {**made, "name": "y", "shape": shape}
    others = [tensor(f"c{n}", v.shape, "INT32", data=v) for n, v in enumerate(constants)]
    computed = bool(rng.integers(5) == 0) and name in ("PAD", "TRANSPOSE", "RESHAPE", "SLICE")
    feeds = [{**other, "data": None} for other in others] if computed else []
    return model(
        [x, *feeds],
        [y],
        [op(name, inputs[: 1 + len(constants)], ["y"], options, VERSIONS.get(name, 2))],
        [] if computed else others,
    )


MOVEMENTS = [
    *("RESHAPE", "TRANSPOSE", "PAD", "SLICE", "STRIDED_SLICE", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE"),
    *("RESIZE_BILINEAR", "EXPAND_DIMS", "SPLIT", "CONCATENATION"),
]
OTHERS = {**PRODUCTS, **ARITHMETIC, **REDUCTIONS, **CASTS}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    rng = np.random.default_rng([*map(ord, name)])
    assert [f for _ in range(25) if (f := disagreement(unary(rng, name)))] == []


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    rng = np.random.default_rng([*map(ord, name)])
    assert [f for _ in range(25) if (f := disagreement(binary(rng, name)))] == []


@pytest.mark.parametrize("name", MOVEMENTS)
def test_movement(name: str) -> None:
    rng = np.random.default_rng([*map(ord, name)])
    assert [f for _ in range(25) if (f := disagreement(movement(rng, name)))] == []


@pytest.mark.parametrize(("what", "type"), list(OTHERS))
def test_computing(what: str, type: str) -> None:
    rng = np.random.default_rng([*map(ord, what + type)])
    cases = [OTHERS[what, type](rng, "far", what, type) for _ in range(10)]
    assert [found for case in cases if (found := disagreement(case.data))] == []
