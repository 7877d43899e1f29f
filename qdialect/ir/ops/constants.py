"""Constants: inline when small, a typed reference into the weight store otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

from typing_extensions import Self
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.ir.dialects.accessors import plain_accessors
from qdialect.ir.dialects.construction import check_arguments, checked_construction
from qdialect.ir.quant import UniformType
from qdialect.ir.weights import DTYPES, Blob, BlobStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TENSOR = TensorType.constr()

#: constants of at most this many elements are written into the text
INLINE_LIMIT = 64


@irdl_attr_definition
class BlobAttr(ParametrizedAttribute):
    """A tensor in the session's weight store: `#nn.blob<"key" : tensor<64x3xi8>>`.

    The key is a content hash, so equality of the attribute is equality of weights.
    """

    name = "nn.blob"
    key: StringAttr
    type: TensorType[Attribute]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            key = parser.parse_str_literal()
            parser.parse_punctuation(":")
            return [StringAttr(key), parser.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.key.data)
            printer.print_string(" : ")
            printer.print_attribute(self.type)

    def get_type(self) -> Attribute:
        """The type of the tensor."""
        return self.type


Payload = BlobAttr | DenseIntOrFPElementsAttr


@checked_construction
@plain_accessors
@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A tensor of floats or integers, or of a quantized type whose storage the value holds.

    `nn.constant #nn.blob<"..." : tensor<8x3xi8>> : tensor<8x3x!quant.uniform<i8:f32, 0.1>>`
    """

    VERIFIES_TYPES_ONLY: ClassVar[bool] = True

    name = "nn.constant"
    value: BlobAttr | DenseIntOrFPElementsAttr = prop_def(
        base(BlobAttr) | base(DenseIntOrFPElementsAttr)
    )
    result = result_def(_TENSOR)
    traits = traits_def(Pure(), ConstantLike())

    def __init__(
        self,
        value: Payload,
        type: TensorType[Any] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ):
        check_arguments(self.__class__, (), {"value": value})
        # What xDSL's constructor of declared ops sorts out first is plain here.
        Operation.__init__(
            self,
            result_types=[type or value.get_type()],
            properties={"value": value},
            attributes=attributes or {},
        )

    def verify_(self) -> None:
        """Check what shapes and types alone do not say; VerifyException."""
        stored = cast("TensorType[Any]", self.value.get_type())
        declared = cast("TensorType[Any]", self.result.type)
        element = declared.element_type
        expected = _stored_type(element) if isinstance(element, UniformType) else element
        if stored.get_shape() != declared.get_shape() or stored.element_type != expected:
            raise VerifyException(
                f"'{self.name}' op holds a value of type {stored}, "
                f"which cannot stand for {declared}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Read the custom form, after the name of the op."""
        value = parser.parse_attribute()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.create(
            result_types=[parser.parse_type()],
            properties={"value": value},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        """Write the custom form, after the name of the op."""
        printer.print_string(" ")
        printer.print_attribute(self.value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


def element_name(element: Attribute) -> str:
    """The name of an element type as the weight store spells it (`f32`, `ui8`, `i4`)."""
    if isinstance(element, IntegerType):
        kind = cast("IntegerType[int, Signedness]", element)
        prefix = "ui" if kind.signedness.data is Signedness.UNSIGNED else "i"
        return f"{prefix}{kind.width.data}"
    return _spelled(element)


@lru_cache(maxsize=64)
def _spelled(element: Attribute) -> str:
    return str(element)


def _stored_type(element: UniformType) -> IntegerType:
    """The integers that hold stored values; bits, for float storage."""
    return _integer(element.qparams.storage.width)


@cache
def _integer(width: int) -> IntegerType:
    return IntegerType(width)


def _numpy_view(array: NDArray[Any], element: Attribute) -> NDArray[Any]:
    """Reinterpret signless storage as unsigned where the quantized type says so, or holds
    the bits of floats."""
    storage = element.qparams.storage if isinstance(element, UniformType) else None
    if storage is not None and (storage.is_float or not storage.signed):
        import numpy as np

        unsigned = array.view(np.dtype(f"u{array.dtype.itemsize}"))
        width = storage.width
        # Elements narrower than a byte may come sign extended.
        return unsigned & ((1 << width) - 1) if width < 8 else unsigned
    return array


def constant_array(op: ConstantOp, store: BlobStore) -> NDArray[Any]:
    """The value as a read-only numpy array of the declared shape; no copy.

    Quantized constants give stored integers, unsigned storage as unsigned dtype.
    InputError (`missing-blob`) when the store does not hold the weight.
    """
    declared = cast("TensorType[Any]", op.result.type)
    if isinstance(op.value, BlobAttr):
        array = store.get(op.value.key.data).array()
    else:
        array = dense_array(op.value)
    return _numpy_view(array.reshape(declared.get_shape()), declared.element_type)


_KEPT = "qdialect array"


def dense_array(value: DenseIntOrFPElementsAttr) -> NDArray[Any]:
    """The numbers in the text, kept with it: few that many ask for. For types of `DTYPES`."""
    kept = vars(value)
    known: NDArray[Any] | None = kept.get(_KEPT)
    if known is None:
        stored = cast("TensorType[Any]", value.get_type())
        data = memoryview(value.data.data)
        known = Blob(element_name(stored.element_type), stored.get_shape(), data).array()
        kept[_KEPT] = known
    return known


def payload(array: np.ndarray[Any, Any], kind: TensorType[Any], store: BlobStore) -> Payload:
    """`array` as an attribute of type `kind`: inline if small, else in `store`."""
    element = element_name(kind.element_type)
    if element not in DTYPES:
        raise ValueError(f"no weight store type for {kind.element_type}")
    if array.size > INLINE_LIMIT:
        return BlobAttr(StringAttr(store.add(array, element)), kind)
    probe = BlobStore()
    return DenseIntOrFPElementsAttr(
        kind, BytesAttr(bytes(probe.get(probe.add(array, element)).data))
    )


def make_constant(
    array: np.ndarray[Any, Any],
    element: Attribute,
    store: BlobStore,
    attributes: Mapping[str, Attribute] | None = None,
) -> ConstantOp:
    """A constant op for `array` with element type `element`.

    For a quantized element `array` holds stored integers in the storage's range.
    """
    shape = array.shape
    stored = _stored_type(element) if isinstance(element, UniformType) else element
    if isinstance(element, UniformType) and array.dtype.kind == "u":
        array = signless(array, element.qparams.storage.width)
    value = payload(array, TensorType(stored, shape), store)
    return ConstantOp(value, TensorType(element, shape), attributes)


def signless(array: NDArray[Any], width: int) -> NDArray[Any]:
    """Unsigned numbers of so many bits as text holds them: sign extended."""
    import numpy as np

    array = array.view(np.dtype(f"i{array.dtype.itemsize}"))
    return array if width >= 8 else ((array << (8 - width)) >> (8 - width)).astype(np.int8)


def constant_of(value: SSAValue) -> ConstantOp | None:
    """The constant op that defines `value`, if one does."""
    owner = value.owner
    # Asked of nearly every operand; for what it is not, `isinstance` is slow.
    return owner if type(owner) is ConstantOp else None


def inline_array(value: SSAValue) -> NDArray[Any] | None:
    """What `value` holds if it is a constant written in the text; no weight store needed."""
    constant = constant_of(value)
    if constant is None or isinstance(constant.value, BlobAttr):
        return None
    stored = cast("TensorType[Any]", constant.value.get_type())
    if element_name(stored.element_type) not in DTYPES:
        return None
    return constant_array(constant, BlobStore())
