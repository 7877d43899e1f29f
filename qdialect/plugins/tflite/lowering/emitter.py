"""Building the ops of TFLite files.

Values keep their quantized types, so that there is nothing to state beside them. The op that
makes a value of the model has its keys; ops in between have none, and their tensors get names
when the file is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.contract import Numerics
from qdialect.algebra.qparams import QParams, Storage
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.context import QContext
from qdialect.ir.ops.base import ranked as ranked_type
from qdialect.ir.ops.constants import constant_array, constant_of, make_constant
from qdialect.ir.ops.keys import KEY
from qdialect.ir.quant import UniformType
from qdialect.plugins.common.lowering.emitter import (
    INTEGERS,
    BaseEmitter,
    element_of,
    integer_type,
    storage_of,
)
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, Order, identity_order, reordered
from qdialect.plugins.tflite.dialect import TfliteNodeOp, kernels_of_module
from qdialect.plugins.tflite.target_requirements import breaches

if TYPE_CHECKING:
    from numpy.typing import NDArray

STORAGES = ("i2", "i4", "i8", "u8", "i16", "i32", "i64")
"""The integers of tensors with scales."""

Option = bool | int | float | str | Sequence[int]


class Emitter(BaseEmitter):
    """Collects `tflite.node`s."""

    def __init__(self, session: QContext, numerics: Numerics = Numerics.TIES) -> None:
        super().__init__(session)
        self.numerics = numerics
        self.made: dict[object, SSAValue] = {}
        """Values that are made once, by what they are."""
        self.dequantized: dict[SSAValue, LaidOut] = {}
        """Constants of codes, by the floats that are dequantized from them."""
        self.flattened: dict[SSAValue, LaidOut] = {}
        """What a value of one row per batch entry was reshaped from."""

    @property
    def allows_ties(self) -> bool:
        """Whether kernels may round ties in another way than an op says."""
        return self.numerics >= Numerics.TIES

    @property
    def allows_steps(self) -> bool:
        """Whether kernels may be a step off."""
        return self.numerics >= Numerics.BOUNDED

    # -- ops ------------------------------------------------------------------------

    def append(self, op: Operation) -> None:
        """Put `op` last, with the location of the op that is lowered."""
        if self.source is not None:
            op.location = self.source.location
        self.operations.append(op)

    def mark(self, x: LaidOut) -> None:
        """Put the keys of the op that is lowered on the op that defines `x`."""
        if self.source is None or x.value is None:
            return
        owner, keys = x.value.owner, self.source.attributes.get(KEY)
        if keys is not None and isinstance(owner, TfliteNodeOp) and KEY not in owner.attributes:
            owner.attributes[KEY] = keys

    def node(
        self,
        name: str,
        operands: Sequence[SSAValue | None],
        shape: Sequence[int],
        element: Attribute,
        **options: Option,
    ) -> SSAValue:
        """The builtin op `name`, with one result."""
        return self.nodes(name, operands, [(shape, element)], **options)[0]

    def nodes(
        self,
        name: str,
        operands: Sequence[SSAValue | None],
        results: Sequence[tuple[Sequence[int], Attribute]],
        **options: Option,
    ) -> Sequence[SSAValue]:
        """The builtin op `name`, with any number of results; Unlowerable where the engine that the
        file is for refuses it, or computes something else than the types say."""
        op = self.unchecked(name, operands, results, **options)
        for breach in breaches(op):
            if self._engine in (*breach.refuse, *breach.ignore, *breach.wrong):
                raise Unlowerable("kernel", f"LiteRT runs no such {name}: {breach.text}")
        return op.results

    def unchecked(
        self,
        name: str,
        operands: Sequence[SSAValue | None],
        results: Sequence[tuple[Sequence[int], Attribute]],
        **options: Option,
    ) -> TfliteNodeOp:
        """The same for a reader that knows what the kernel does."""
        kinds = [ranked_type(element, shape) for shape, element in results]
        made = {key: _attribute(value) for key, value in options.items()}
        op = TfliteNodeOp(name, operands, kinds, made)
        self.append(op)
        return op

    @property
    def _engine(self) -> str:
        """The engine that the module names: `xnn`, `opt` or `ref`."""
        found: Operation | None = self.source
        while found is not None and found.parent_op() is not None:
            found = found.parent_op()
        named = None if found is None else kernels_of_module(found)
        return (named or "litert-xnn").removeprefix("litert-")

    # -- constants and types --------------------------------------------------------

    def constant_op(self, array: NDArray[Any], kind: TensorType[Any]) -> Operation:
        """`nn.constant`."""
        return make_constant(array, kind.element_type, self.session.blobs)

    def value_of(self, x: LaidOut, order: Order | None = None) -> SSAValue:
        """See the base class; constants have quantized types."""
        if x.array is None:
            codes = None if x.value is None else self.dequantized.get(x.value)
            if codes is not None and order not in (None, x.order):
                # Codes are transposed as the file is written, and no floats as it runs.
                return self.floats_of(codes, order)
            return super().value_of(x, order)
        target = identity_order(x.rank) if order is None else order
        element = storage_of(x) if x.params is None else self.element(x.params, target)
        return self.const(x.array.transpose(target), element)

    def element(self, params: QParams, order: Order | None = None) -> UniformType:
        """The element type of a value that is laid out in `order`; Unlowerable for what no
        tensor of a file can be."""
        storage = params.storage
        if storage.spelling not in STORAGES or storage.quantile is not None:
            raise Unlowerable("storage", f"a file has no tensors of {storage.spelling} codes")
        if params.layout.value == "block":
            raise Unlowerable("grid", "its parameters vary in blocks", "scales along one dimension")
        if params.expressed != "f32":
            raise Unlowerable("expressed", f"it means {params.expressed} and not f32")
        if not all(
            storage.full_range[0] <= z <= storage.full_range[1] for z in params.zero_point_list()
        ):
            raise Unlowerable("zero-point", "a zero point is outside of the storage")
        params = full_range(params)
        if params.axis is not None and order is not None:
            params = params.with_axis(order.index(params.axis))
        return UniformType(params)

    def floats_of(self, codes: LaidOut, order: Order | None = None) -> SSAValue:
        """The floats of a constant of codes: `DEQUANTIZE`."""
        value = self.value_of(codes, order)
        key = "floats", value
        if key not in self.made:
            self.made[key] = self.node("DEQUANTIZE", [value], shape_of(value), f32)
            self.dequantized[self.made[key]] = codes
        return self.made[key]

    def result_element(self, x: LaidOut) -> Attribute:
        """The element type of `x` as it is laid out."""
        return storage_of(x) if x.params is None else self.element(x.params, x.order)

    def numbers(self, values: Sequence[int], width: int = 32) -> SSAValue:
        """A constant vector of integers."""
        return self.const(np.array(values, INTEGERS[width]), i32 if width == 32 else i64)

    def scalar(self, value: float, element: Attribute, shape: Sequence[int] = ()) -> SSAValue:
        """One number of an integer or float type, of rank 0 or of other shape."""
        if (integer := integer_type(element)) is not None:
            array = np.full(shape, int(value), INTEGERS.get(integer.width.data, np.int8))
        else:
            array = np.full(shape, value, {"f16": "f2", "f64": "f8"}.get(str(element), "f4"))
        return self.const(array, element)

    def code(self, code: int, params: QParams, shape: Sequence[int] = ()) -> SSAValue:
        """One code with the scale and zero point of `params`."""
        kind = f"{'i' if params.storage.signed else 'u'}{max(params.storage.width, 8) // 8}"
        return self.const(np.full(shape, code, kind), self.element(params))

    # -- movement -------------------------------------------------------------------

    def transposed(self, value: SSAValue, perms: Sequence[int]) -> SSAValue:
        """A reshape where only ones move, of extents that are known."""
        shape, element = shape_of(value), element_of(value)
        along = isinstance(element, UniformType) and not element.qparams.is_per_tensor
        if along or shape.count(DYNAMIC) > 1:
            return self.permuted(value, perms)
        return super().transposed(value, perms)

    def permuted(self, value: SSAValue, perms: Sequence[int]) -> SSAValue:
        """`TRANSPOSE`."""
        if list(perms) == sorted(perms):
            return value
        element = element_of(value)
        if isinstance(element, UniformType) and element.qparams.axis is not None:
            axis = list(perms).index(element.qparams.axis)
            element = UniformType(element.qparams.with_axis(axis))
        shape = reordered(shape_of(value), perms)
        return self.node("TRANSPOSE", [value, self.numbers(perms)], shape, element)

    def _with_ones(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`SQUEEZE` and `EXPAND_DIMS`, which know more unknown extents than a shape may have."""
        extents, element = list(shape_of(value)), element_of(value)
        if _without_ones(extents) != _without_ones(shape):
            raise Unlowerable("dynamic-shape", "it reshapes to more than one unknown extent")
        ones = [d for d, n in enumerate(extents) if n == 1]
        if ones:
            extents = _without_ones(extents)
            value = self.node("SQUEEZE", [value], extents, element, squeeze_dims=ones)
        for d, n in enumerate(shape):
            if n == 1:
                extents.insert(d, 1)
                operands = [value, self.const(np.array(d, np.int32), i32)]
                value = self.node("EXPAND_DIMS", operands, extents, element)
        return value

    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`RESHAPE`; Unlowerable for parameters along a dimension, and for more than one extent
        that is not known."""
        if tuple(shape) == shape_of(value) and tuple(shape).count(DYNAMIC) < 2:
            return value
        element = element_of(value)
        if isinstance(element, UniformType) and not element.qparams.is_per_tensor:
            raise Unlowerable("axis", "it reshapes what has parameters along a dimension")
        if list(shape).count(DYNAMIC) > 1:
            return self._with_ones(value, shape)
        made = options_of(value)
        if made is not None and made[0].op.data == "RESHAPE":
            # What is in between goes if nobody else reads it, and it does not read other codes.
            source = made[0].operands[0]
            if element_of(source) == element:
                return self.reshaped(source, shape)
        return self.node(
            "RESHAPE", [value, self.numbers(shape)], shape, element, new_shape=list(shape)
        )


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [n for n in shape if n != 1]


def full_range(params: QParams) -> QParams:
    """The same scales and zero points with all codes of the storage: files have no bounds."""
    if params.storage.is_full_range:
        return params
    return params.with_storage(Storage.of(params.storage.spelling))


def _attribute(value: Option) -> Attribute:
    if isinstance(value, bool):
        return IntegerAttr(int(value), i1)
    if isinstance(value, int):
        return IntegerAttr(value, i32)
    if isinstance(value, float):
        return FloatAttr(value, f32)
    if isinstance(value, str):
        return StringAttr(value)
    return DenseArrayBase.from_list(i32, list(value))


def is_float(element: Attribute) -> bool:
    """Whether elements are floats."""
    return isinstance(element, AnyFloat)


def options_of(value: SSAValue) -> tuple[TfliteNodeOp, Mapping[str, Attribute]] | None:
    """The node that makes `value`, and its options."""
    owner = value.owner
    return (owner, owner.options.data) if isinstance(owner, TfliteNodeOp) else None


def constant_vector(e: Emitter, value: SSAValue) -> NDArray[Any] | None:
    """What `value` holds if it is a constant."""
    constant = constant_of(value)
    return None if constant is None else constant_array(constant, e.session.blobs)
