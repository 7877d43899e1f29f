"""One op in LiteRT and in the interpreter, on the same codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Operation
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.qparams import QParams
from qdialect.interpreter import evaluate_op
from qdialect.ir.context import QContext, new_context
from qdialect.ir.ops.base import KERNEL
from qdialect.ir.quant import UniformType
from tests.support.tflite_models import litert_ops, model, op, run_litert, tensor

CONTEXT: QContext = new_context()
STORAGES = {"int8": "i8", "uint8": "u8", "int16": "i16"}

Codes = tuple[np.ndarray, tuple[float, int]]
"""An array of codes, its scale and zero point."""


def storage(dtype: Any) -> str:
    return STORAGES[np.dtype(dtype).name]


def element(dtype: Any, scale: float, zero: int) -> UniformType:
    """The element type of codes; scales are floats of 32 bits, as in files."""
    return UniformType(QParams.per_tensor(storage(dtype), float(np.float32(scale)), zero))


def interpreted(
    kind: type[Operation],
    operands: Sequence[Codes],
    result: tuple[Any, float, int],
    engine: str,
    **properties: Any,
) -> np.ndarray:
    """What the interpreter computes for an op with the kernel `engine`."""
    values = [
        create_ssa_value(TensorType(element(codes.dtype, *qparams), codes.shape))
        for codes, qparams in operands
    ]
    made: Any = kind
    built = made(*values, element=element(*result), **properties)
    built.attributes[KERNEL] = StringAttr(engine)
    (found,) = evaluate_op(built, [codes for codes, _ in operands], CONTEXT)
    return found


def in_litert(
    name: str,
    operands: Sequence[Codes],
    result: tuple[Any, float, int],
    resolver: str,
    options: Mapping[str, Any] | None = None,
    shape: Sequence[int] | None = None,
    constants: Sequence[np.ndarray] = (),
) -> tuple[np.ndarray, bool]:
    """What LiteRT computes, and whether XNNPACK did; `constants` are plain operands after."""
    takes = [
        tensor(f"x{k}", codes.shape, codes.dtype.name.upper(), [scale], [zero])
        for k, (codes, (scale, zero)) in enumerate(operands)
    ]
    others = [
        tensor(f"c{k}", array.shape, array.dtype.name.upper(), data=array)
        for k, array in enumerate(constants)
    ]
    dtype, scale, zero = result
    gives = tensor(
        "y", shape or operands[0][0].shape, np.dtype(dtype).name.upper(), [scale], [zero]
    )
    names = [t["name"] for t in (*takes, *others)]
    data = model(takes, [gives], [op(name, names, ["y"], options)], others)
    (found,) = run_litert(data, [codes for codes, _ in operands], resolver)
    return found, resolver == "xnn" and "DELEGATE" in litert_ops(data)


def engine_of(resolver: str, delegated: bool) -> str:
    """The kernel that ran: what XNNPACK does not take is computed by an optimized one."""
    if resolver == "xnn":
        return "litert-xnn" if delegated else "litert-opt"
    return f"litert-{resolver}"


def all_codes(dtype: Any) -> np.ndarray:
    """Every code of a type, as one row."""
    limits = np.iinfo(dtype)
    return np.arange(limits.min, limits.max + 1).astype(dtype)[None]


def random_scale(rng: np.random.Generator) -> float:
    """A power of two, a short decimal fraction, or anything between 0.001 and 2."""
    kind = int(rng.integers(3))
    if kind == 0:
        return float(2.0 ** int(rng.integers(-9, 2)))
    if kind == 1:
        return float(np.float32(rng.choice([0.05, 0.06, 0.07, 0.1, 0.2, 0.03, 0.0123])))
    return float(np.float32(10.0 ** rng.uniform(-3, 0.3)))


def random_zero(rng: np.random.Generator, dtype: Any) -> int:
    """Any zero point; 0 of 16 bits, which LiteRT demands."""
    limits = np.iinfo(dtype)
    return int(rng.integers(limits.min, limits.max + 1)) if limits.bits == 8 else 0
