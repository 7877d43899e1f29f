"""Random ops of one kind, as files for LiteRT and as `nn` ops for the interpreter.

A case has a file with one op, inputs in the layout of the file, the same op on our layout (images
are [N, C, H, W]) and how our result comes back. `differing` counts elements that an engine and the
interpreter disagree on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, StringAttr, TensorType, f32, i64
from xdsl.ir import Attribute, Operation
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.qparams import QParams
from qdialect.interpreter import evaluate_op
from qdialect.ir.context import QContext
from qdialect.ir.ops.base import KERNEL
from qdialect.ir.quant import UniformType
from tests.support.tflite_models import litert_ops, model, op, run_litert, tensor

ENGINES = ("ref", "opt", "xnn")
TYPES = {"INT8": "i8", "UINT8": "u8", "INT32": "i32", "INT16": "i16"}
CONTEXT = QContext()
TO_FILE, TO_OURS = (0, 2, 3, 1), (0, 3, 1, 2)


@dataclass
class Case:
    """One op, twice."""

    data: bytes
    inputs: list[np.ndarray]
    op: Operation
    operands: list[np.ndarray]
    back: Callable[[np.ndarray], np.ndarray] = lambda result: result
    #: whose kernel the optimized resolver takes
    optimized: str = "opt"


def differing(case: Case, engine: str) -> tuple[int, str]:
    """How many elements of LiteRT's result are not the interpreter's, and whose kernel ran."""
    (expected,) = run_litert(case.data, case.inputs, engine)
    ran = engine
    if engine == "xnn" and "DELEGATE" not in litert_ops(case.data):
        ran = "opt"
    if ran == "opt":
        ran = case.optimized
    case.op.attributes[KERNEL] = StringAttr(f"litert-{ran}")
    (result,) = evaluate_op(case.op, case.operands, CONTEXT)
    result = case.back(result)
    assert result.shape == expected.shape and result.dtype == expected.dtype
    same = result == expected
    if result.dtype.kind == "f":
        same |= np.isnan(result) & np.isnan(expected)
    return int(np.count_nonzero(~same)), ran


def scale(rng: np.random.Generator, kind: str) -> float:
    """`ties` are powers of two, `near` have products near to ties, `wild` are random, `far` have
    very different sizes."""
    if kind == "ties":
        return float(2.0 ** rng.integers(-8, -2))
    if kind == "near":
        return float(np.float32(rng.choice([0.07, 0.05, 0.06, 0.1, 0.03, 0.3])))
    spread = 6.0 if kind == "far" else 1.0
    return float(np.float32(np.exp(rng.normal() * spread / 2 - 3)))


KINDS = ("ties", "near", "wild", "far")


def zero_point(rng: np.random.Generator, type: str) -> int:
    """Any code, and often one at the end."""
    low, high = bounds(type)
    return int(rng.choice([low, high, int(rng.integers(low, high + 1)), (low + high + 1) // 2]))


def bounds(type: str) -> tuple[int, int]:
    """The smallest and the largest code."""
    info = np.iinfo(type.lower())
    return int(info.min), int(info.max)


def codes(rng: np.random.Generator, shape: Sequence[int], type: str) -> np.ndarray:
    """Random codes, all that the type has."""
    low, high = bounds(type)
    return rng.integers(low, high + 1, tuple(shape)).astype(type.lower())


def quant(type: str, scale: float, zero: int = 0) -> UniformType:
    """A type with one scale."""
    return UniformType(QParams.per_tensor(TYPES[type], scale, zero))


def quant_axis(type: str, axis: int, scales: Sequence[float]) -> UniformType:
    """A type with scales along an axis."""
    return UniformType(QParams.per_axis(TYPES[type], axis, [float(s) for s in scales]))


def built(
    kind: Any, operands: Sequence[tuple[np.ndarray, Attribute]], element: Attribute, **named: Any
) -> Operation:
    """An `nn` op on arrays of element types."""
    values = [create_ssa_value(TensorType(e, a.shape)) for a, e in operands]
    return kind(*values, element=element, **named)


def set_order(built: Operation, order: Sequence[int]) -> None:
    """Say in which order the file has the dimensions of the result."""
    built.attributes["nn.kernel_order"] = DenseArrayBase.from_list(i64, list(order))


def same_pads(n: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """What SAME pads before and after."""
    total = max((-(-n // stride) - 1) * stride + (kernel - 1) * dilation + 1 - n, 0)
    return total // 2, total - total // 2


__all__ = [
    "ENGINES",
    "KINDS",
    "TO_FILE",
    "TO_OURS",
    "Case",
    "bounds",
    "built",
    "codes",
    "differing",
    "f32",
    "model",
    "op",
    "quant",
    "quant_axis",
    "same_pads",
    "scale",
    "set_order",
    "tensor",
    "zero_point",
]
