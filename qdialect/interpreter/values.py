"""How values are held at run time.

| element type | numpy |
|---|---|
| f64, f32, f16 | float64, float32, float16 |
| bf16 | float32 holding bf16 values |
| any float, `floats="real"` | float64 |
| i1 | bool |
| other floats of 8 bits or less | uint8, their bits |
| complex<f32>, complex<f64> | complex64, complex128 |
| strings of ONNX | object |
| iN, uiN, index | the smallest int / uint dtype of N bits or more |
| `!tosa.shape` | int64 |
| `!quant.uniform` | its stored integers, signed or unsigned as its storage, likewise |
| `!quant.uniform` of floats or a table | codes, see `codes` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    ComplexType,
    IndexType,
    IntegerType,
    Signedness,
    TensorType,
    TupleType,
    UnrankedTensorType,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue

from qdialect.algebra.qparams import Storage
from qdialect.errors import InputError, UnsupportedError, Where
from qdialect.interpreter.codes import codes_of, is_coded
from qdialect.interpreter.small_floats import is_small_float
from qdialect.ir.ops import ConstantOp, constant_array
from qdialect.ir.ops.locations import op_where
from qdialect.ir.ops.shapes import DYNAMIC, Shape, compatible
from qdialect.ir.quant import UniformType, element_type
from qdialect.plugins.onnx.dialect import STRING, OpaqueType
from qdialect.plugins.tosa.dialect import ShapeType

if TYPE_CHECKING:
    from qdialect.ir.weights import BlobStore

Array = NDArray[Any]

Floats = Literal["ieee", "real"]
"""`ieee`: every float op in its own type. `real`: all float computation in float64,
with scales in float64, as an approximation of real arithmetic."""

_FLOATS = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.float32}
_COMPLEX = {"f32": np.complex64, "f64": np.complex128}
_BF16_PRECISION, _BF16_MIN_EXPONENT = 8, -126


class Session(Protocol):
    """What the interpreter needs of a `QContext`."""

    @property
    def blobs(self) -> BlobStore:
        """The weights."""
        ...

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """How ops that are not ours are computed, by name."""
        ...


class Runner(Protocol):
    """What runs the function that an op is in."""

    def value(self, value: SSAValue) -> Array:
        """A value of the block that runs, or of one around it."""
        ...

    def region(self, region: Region, arguments: Sequence[Array]) -> list[Array]:
        """What the one block of a region yields; values around the op can be used in it."""
        ...

    def call(self, name: str, arguments: Sequence[Array]) -> list[Array]:
        """What another function of the module returns."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """What a kernel may use besides its operands: the session, the float mode, and what runs
    the function around the op, if one is run."""

    ctx: Session
    floats: Floats = "ieee"
    runner: Runner | None = None

    def dtype(self, type: Attribute) -> np.dtype[Any]:
        """See `runtime_dtype`."""
        return runtime_dtype(type, self.floats)

    def as_float(self, values: Array, type: Attribute) -> Array:
        """See `as_float`."""
        return as_float(values, type, self.floats)


Kernel = Callable[[Operation, Sequence[Array], Evaluation], Sequence[Array]]
"""Computes the results of one op from its operands; must not write into them."""


def guarded(
    kernels: Mapping[str, Kernel], code: str, errors: tuple[type[Exception], ...]
) -> Mapping[str, Kernel]:
    """The kernels of ops whose classes do not check everything: `errors` of one are an InputError
    (`code`) that its operands and attributes do not fit."""

    def one(kernel: Kernel) -> Kernel:
        def run(
            op: Operation, operands: Sequence[Array], evaluation: Evaluation
        ) -> Sequence[Array]:
            try:
                return kernel(op, operands, evaluation)
            except errors as error:
                reason = str(error).partition("\n")[0]
                raise InputError(
                    f"the operands and attributes of '{op_name(op)}' do not fit: {reason}",
                    code=code,
                ) from None

        return run

    return {name: one(kernel) for name, kernel in kernels.items()}


def runtime_dtype(type: Attribute, floats: Floats = "ieee") -> np.dtype[Any]:
    """The numpy dtype of values of an IR type; UnsupportedError."""
    element = element_type(type)
    if isinstance(element, UniformType):
        return storage_dtype(element.qparams.storage)
    if isinstance(element, IndexType | ShapeType):
        return np.dtype(np.int64)
    if isinstance(element, IntegerType):
        integer = cast(IntegerType, element)
        signed = integer.signedness.data is not Signedness.UNSIGNED
        return integer_dtype(integer.width.data, signed)
    if isinstance(element, ComplexType):
        return np.dtype(_COMPLEX[str(cast("ComplexType[Any]", element).element_type)])
    name = str(element)
    if element == STRING:
        return np.dtype(object)
    if is_small_float(name):
        return np.dtype(np.uint8)
    if name not in _FLOATS:
        raise UnsupportedError(f"values of type {element} cannot be interpreted")
    return np.dtype(np.float64 if floats == "real" else _FLOATS[name])


def as_float(values: Array, type: Attribute, floats: Floats = "ieee") -> Array:
    """Floats of any precision as runtime values of a float type, rounded to nearest even."""
    if floats == "ieee" and isinstance(element_type(type), BFloat16Type):
        return round_to_bf16(values)
    with np.errstate(over="ignore"):  # what is too large becomes infinite
        return values.astype(runtime_dtype(type, floats), copy=False)


def integer_dtype(width: int, signed: bool) -> np.dtype[Any]:
    """The smallest numpy integer of at least `width` bits; bool for one signed bit."""
    if signed and width == 1:
        return np.dtype(np.bool_)
    for bits in (8, 16, 32, 64):
        if width <= bits:
            return np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
    raise UnsupportedError(f"integers of {width} bits cannot be interpreted")


def storage_dtype(storage: Storage) -> np.dtype[Any]:
    """The dtype of stored integers; of bit patterns for float storage."""
    if storage.is_float:
        return np.dtype(np.uint8)
    prefix = "i" if storage.signed else "u"
    return np.dtype(f"{prefix}{integer_dtype(max(storage.width, 2), True).itemsize}")


def round_to_bf16(values: Array) -> NDArray[np.float32]:
    """Floats rounded to the nearest bf16, ties to even, as float32."""
    wide = np.asarray(values, np.float64)
    exponent = np.maximum(np.frexp(wide)[1] - 1, _BF16_MIN_EXPONENT)
    ulp = exponent - (_BF16_PRECISION - 1)
    with np.errstate(over="ignore"):
        return np.ldexp(np.rint(np.ldexp(wide, -ulp)), ulp).astype(np.float32)


def constant(op: ConstantOp, evaluation: Evaluation) -> Array:
    """The value of `nn.constant`; a view of the weight store where possible."""
    array = constant_array(op, evaluation.ctx.blobs)
    if isinstance(element_type(op.result.type), BFloat16Type):
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(evaluation.dtype(op.result.type), copy=False)


def check_input(array: Array, type: Attribute, name: str, evaluation: Evaluation) -> Array:
    """A caller's array as the runtime value of an argument; InputError (`bad-input`).

    Rank and static extents must fit. Floats and integers must come in their dtype
    (floats of any precision with `floats="real"`); stored integers and codes in any
    integer dtype, within the storage bounds.
    """

    def bad(reason: str) -> InputError:
        return InputError(f"input '{name}' {reason}", code="bad-input")

    if not has_type_shape(array, type):
        raise bad(f"has shape {list(array.shape)}, but its type is {type}")
    dtype, element = evaluation.dtype(type), element_type(type)
    if isinstance(element, UniformType):
        storage = element.qparams.storage
        if array.dtype.kind not in "iu":
            raise bad(f"has dtype {array.dtype}, but takes stored integers ({storage})")
        if is_coded(storage):
            if not codes_of(storage).holds(array):
                raise bad(f"holds codes that storage {storage} does not have")
        elif array.size and not (
            storage.min <= int(array.min()) and int(array.max()) <= storage.max
        ):
            raise bad(f"holds integers outside the storage bounds [{storage.min}, {storage.max}]")
        return array.astype(dtype, copy=False)
    if dtype.kind == "O" and array.dtype.kind in "OU":
        return array.astype(object)
    accepted = array.dtype == dtype or (evaluation.floats == "real" and array.dtype.kind == "f")
    if not accepted or (dtype.kind == "f") != (array.dtype.kind == "f"):
        raise bad(f"has dtype {array.dtype}, but its type is {type}")
    return evaluation.as_float(array, type) if dtype.kind == "f" else array


def declared_shape(type: Attribute) -> Shape:
    """The shape of a tensor type, `DYNAMIC` where unknown; () for a scalar type."""
    if isinstance(type, ShapeType):
        return (type.rank.data,)
    if not isinstance(type, TensorType):
        return ()
    extents = cast("TensorType[Any]", type).get_shape()
    return tuple(DYNAMIC if n == DYNAMIC_INDEX else n for n in extents)


def has_type_shape(array: Array, type: Attribute) -> bool:
    """Whether an array has the rank and static extents of a type (any if unranked)."""
    return isinstance(type, UnrankedTensorType) or compatible(declared_shape(type), array.shape)


def holds_no_array(type: Attribute) -> bool:
    """Whether values are something else than an array of elements: a sequence of ONNX, a
    tuple, a token."""
    return isinstance(type, OpaqueType | TupleType) or type.name == "stablehlo.token"


def op_name(op: Operation) -> str:
    """The name as written in the IR, also of an op of an unregistered dialect."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def place(op: Operation) -> Where:
    """Where an op is, for errors: in its file, or its stable key or name."""
    return op_where(op) or Where(node=op_name(op))
