"""One op of StableHLO as its kernel sees it: types, attributes and regions, however they came.

Ops are computed as the specification says, each in its element type. A kernel is given a
`Call`, so that an op on quantized types can be computed with the expressed types in their
place (`quantized`), and the body of a reduction on many elements at once (`bodies`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    ComplexType,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, Operation, Region

from qdialect.errors import UnsupportedError
from qdialect.interpreter.values import Array, Evaluation, Runner, op_name
from qdialect.ir.dialects.attributes import (
    attribute,
    flag_of,
    integer_of,
    integers_of,
    keyword_of,
    pairs_of,
    required,
)
from qdialect.ir.quant import element_type

Function = Callable[["Call", Sequence[Array]], Sequence[Array]]
"""Computes the results of an op; must not write into the operands."""


@dataclass(frozen=True)
class Call:
    """An op, the types it is computed with, and the session."""

    op: Operation
    operand_types: Sequence[Attribute]
    result_types: Sequence[Attribute]
    evaluation: Evaluation

    @staticmethod
    def of(op: Operation, evaluation: Evaluation) -> Call:
        """With the types of the op."""
        operands, results = ([v.type for v in side] for side in (op.operands, op.results))
        return Call(op, operands, results, evaluation)

    @property
    def name(self) -> str:
        """The name as written, for messages."""
        return op_name(self.op)

    # -- types ------------------------------------------------------------

    @property
    def element(self) -> Attribute:
        """The element type of the first result."""
        return element_type(self.result_types[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result, which must be static."""
        return static_shape(self.result_types[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of the first result."""
        return self.evaluation.dtype(self.result_types[0])

    def stored(self, value: Array, index: int = 0) -> Array:
        """A value computed in numpy as one of the result type: floats rounded to their
        format, integers wrapped to their width."""
        return as_element(value, self.result_types[index], self.evaluation)

    # -- attributes -------------------------------------------------------

    def attribute(self, name: str) -> Attribute | None:
        """A property, or an attribute of that name; None without one."""
        return attribute(self.op, name)

    def require(self, name: str) -> Attribute:
        """As `attribute`; InputError without one."""
        return required(self.op, name)

    def ints(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """An array, or a list of dense elements, of integers."""
        return integers_of(self.op, name, default)

    def pairs(self, name: str, count: int) -> NDArray[np.int64]:
        """Two numbers for each dimension, 0 where nothing is said (`padding`)."""
        return np.array(pairs_of(self.op, name, count), np.int64).reshape(count, 2)

    def integer(self, name: str, default: int | None = None) -> int:
        """One integer."""
        return integer_of(self.op, name, default)

    def flag(self, name: str) -> bool:
        """A bool; false without one."""
        return flag_of(self.op, name)

    def word(self, name: str, default: str = "") -> str:
        """The case of an enumeration, or a string."""
        return keyword_of(self.op, name, default)

    # -- regions ----------------------------------------------------------

    def run(self, region: Region, arguments: Sequence[Array]) -> Sequence[Array]:
        """What a region returns; values around the op can be used in it."""
        return self.runner.region(region, arguments)

    @property
    def runner(self) -> Runner:
        """What runs the function around; UnsupportedError if there is none."""
        if self.evaluation.runner is None:
            raise UnsupportedError(f"'{self.name}' is computed in a function only")
        return self.evaluation.runner


def static_shape(kind: Attribute) -> tuple[int, ...]:
    """The extents of a tensor type; UnsupportedError where one is not known."""
    shape = cast("TensorType[Any]", kind).get_shape() if isinstance(kind, TensorType) else ()
    if any(n < 0 for n in shape):
        raise UnsupportedError(f"the shape of {kind} is not known")
    return tuple(shape)


def is_unsigned(kind: Attribute) -> bool:
    """Whether elements are unsigned integers."""
    element = element_type(kind)
    return isinstance(element, IntegerType) and (
        cast("IntegerType[int, Signedness]", element).signedness.data is Signedness.UNSIGNED
    )


def width_of(kind: Attribute) -> int:
    """The bits of an integer element."""
    element = element_type(kind)
    if not isinstance(element, IntegerType):
        raise UnsupportedError(f"{element} is no integer")
    return cast("IntegerType[int, Signedness]", element).width.data


def is_integer(kind: Attribute) -> bool:
    """Whether elements are integers (or bools)."""
    return isinstance(element_type(kind), IntegerType)


def is_complex(kind: Attribute) -> bool:
    """Whether elements are complex."""
    return isinstance(element_type(kind), ComplexType)


def wrapped(values: Array, kind: Attribute) -> Array:
    """Integers of any dtype modulo the width of the element type, in its numpy type."""
    width, unsigned = width_of(kind), is_unsigned(kind)
    if width == 1 and not unsigned:
        return values.astype(np.bool_)
    size = next(bits for bits in (8, 16, 32, 64) if width <= bits)
    narrow = values.astype(np.int64 if values.dtype.kind != "u" else np.uint64, copy=False)
    unsigned_bits = narrow.astype(f"u{size // 8}")
    if width == size:
        return unsigned_bits if unsigned else unsigned_bits.view(f"i{size // 8}")
    bits = unsigned_bits & unsigned_bits.dtype.type((1 << width) - 1)
    if unsigned:
        return bits
    signed = (bits << (size - width)).astype(f"u{size // 8}").view(f"i{size // 8}")
    return signed >> (size - width)


def as_element(values: Array, kind: Attribute, evaluation: Evaluation) -> Array:
    """A value computed in numpy as one of a type; see `Call.stored`."""
    from qdialect.interpreter.small_floats import encoded, is_small_float

    values = np.asarray(values)
    if is_integer(kind):
        return wrapped(values, kind)
    if is_complex(kind):
        return values.astype(evaluation.dtype(kind), copy=False)
    name = str(element_type(kind))
    if is_small_float(name):
        return values if values.dtype == np.uint8 else encoded(values, name)
    if values.dtype.kind == "f":
        return evaluation.as_float(values, kind)
    return values.astype(evaluation.dtype(kind), copy=False)


def as_numbers(values: Array, kind: Attribute) -> Array:
    """A runtime value as numpy computes with it: small floats decoded, f16 widened."""
    from qdialect.interpreter.small_floats import decoded, is_small_float

    name = str(element_type(kind))
    if is_small_float(name):
        return decoded(values, name)
    return values.astype(np.float32) if values.dtype == np.float16 else values
