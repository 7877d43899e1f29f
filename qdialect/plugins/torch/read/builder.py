"""What builds the ops of a node: types, extents, constants, new ops, places and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, NameLoc, TensorType
from xdsl.ir import Attribute, SSAValue

from qdialect.errors import InputError
from qdialect.ir.context import QContext
from qdialect.ir.dialects.attributes import string
from qdialect.ir.ops import KEY, make_constant
from qdialect.ir.ops.base import ranked, to_attribute
from qdialect.ir.ops.constants import element_name
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import (
    DCastOp,
    SCastOp,
    UniformType,
    element_type,
    quant_element,
    storage_type,
    with_element,
)
from qdialect.plugins.common.extents import Extent
from qdialect.plugins.common.ops_of_node import OpsOfNode
from qdialect.plugins.onnx.dialect import ELEMENTS, NodeOp
from qdialect.plugins.torch.program import ELEMENT_TYPES, ElementType, Node, Program

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BY_NAME = {element_name(element): element for element in ELEMENTS.values()}
ELEMENTS_BY_CODE: Mapping[int, Attribute] = {
    code: _BY_NAME[name] for code, name in ELEMENT_TYPES.items()
}
"""Element types by their codes in programs: signed integers are signless in IR."""

_START = IntAttr(1)


class Builder(OpsOfNode):
    """The block that is built, for one node of a program at a time."""

    def __init__(self, ctx: QContext, program: Program) -> None:
        super().__init__()
        self.ctx = ctx
        self.program = program
        self.node: Node | None = None
        self.constants: dict[tuple[object, ...], SSAValue] = {}
        self.known_extents: dict[SSAValue, tuple[Extent, ...]] = {}

    # -- types --------------------------------------------------------------------------

    def element(self, name: str) -> Attribute:
        """The element type that the program says a tensor has."""
        return self.element_of(self.program.graph.tensors[name].code)

    def element_of(self, code: int | ElementType) -> Attribute:
        """The element type of a code; InputError (`unsupported`) for one that is not known."""
        number = code.code if isinstance(code, ElementType) else code
        if number not in ELEMENTS_BY_CODE:
            raise self.unsupported(f"has elements of a type not known (code {number})")
        return ELEMENTS_BY_CODE[number]

    def shape(self, name: str) -> tuple[Extent, ...]:
        """The extents that the program says a tensor has."""
        return self.program.graph.tensors[name].shape

    def type(self, name: str) -> TensorType[Attribute]:
        """The type that the program says a tensor has, `?` for extents that are no numbers."""
        return ranked(self.element(name), static(self.shape(name)))

    def extents(self, value: SSAValue) -> tuple[Extent, ...]:
        """The extents of a value; unknown ones where only the run tells them."""
        if value not in self.known_extents:
            kind = cast("TensorType[Attribute]", value.type)
            self.known_extents[value] = tuple(
                Extent.unknown() if n < 0 else Extent.of(n) for n in kind.get_shape()
            )
        return self.known_extents[value]

    # -- values -------------------------------------------------------------------------

    def scalar(self, number: Any, element: Attribute | None = None) -> SSAValue:
        """A Python number as a constant of rank 0."""
        import numpy as np

        return self.array_of(np.array(number), element or _BY_NAME[_KINDS[type(number)]])

    def array_of(self, numbers: NDArray[Any], element: Attribute) -> SSAValue:
        """An array of numbers as a constant of a type, which rounds them."""
        import numpy as np

        name = element_name(element)
        if name == "bf16":
            bits = numbers.astype(np.float32).view(np.uint32)
            array = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        else:
            array = numbers.astype(_numpy(name))
        return self.constant(array, element)

    def constant(self, array: NDArray[Any], element: Attribute, key: str | None = None) -> SSAValue:
        """An array as a constant; equal small ones of no name are one."""
        small = key is None and array.size <= 16
        place = (array.shape, array.dtype.str, element, array.tobytes() if small else id(array))
        if not small or place not in self.constants:
            op = make_constant(array, element, self.ctx.blobs)
            if key is not None:
                op.attributes[KEY] = string(key)
                op.location = self.location(key)
            self.block.add_op(op)
            if not small:
                return op.results[0]
            self.constants[place] = op.results[0]
        return self.constants[place]

    # -- ops ----------------------------------------------------------------------------

    def begin(self, node: Node) -> None:
        """Ops from here on are those of `node`."""
        self.emitted.clear()
        self.node = node

    def build(self, kind: type[Any], *operands: SSAValue | None, **properties: Any) -> SSAValue:
        """Append an `nn` op; its one result."""
        return self.emit(kind(*operands, **properties)).results[0]

    def onnx(
        self,
        op_type: str,
        inputs: Sequence[SSAValue | None],
        *types: TensorType[Any],
        domain: str = "",
        **attributes: Any,
    ) -> SSAValue:
        """Append an `onnx.node`, for a function that ONNX has and `nn` has not; its first
        result.  None of the inputs may be quantized."""
        given = {name: to_attribute(value) for name, value in attributes.items()}
        op = NodeOp(op_type, inputs, types, given, domain=domain)
        return self.emit(op).results[0]

    def function(
        self,
        op_type: str,
        inputs: Sequence[SSAValue | None],
        element: Attribute,
        extents: Sequence[Extent],
        **attributes: Any,
    ) -> SSAValue:
        """Append an `onnx.node` whose one result has these extents."""
        result = self.onnx(op_type, inputs, ranked(element, static(extents)), **attributes)
        self.state(result, extents)
        return result

    def vector(self, numbers: Sequence[int]) -> SSAValue:
        """Integers as a constant of rank 1 and i64."""
        import numpy as np

        return self.constant(np.array(numbers, np.int64).reshape(-1), _BY_NAME["i64"])

    def element_named(self, name: str) -> Attribute:
        """The element type that is spelled so: `i64`, `f32`."""
        return _BY_NAME[name]

    def cast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The numbers of a value as numbers of another type, as `torch.Tensor.to` converts."""
        from qdialect.plugins.onnx.dialect import DATA_TYPES

        value = self.plain(value)
        if element_type(value.type) == element:
            return value
        return self.function("Cast", [value], element, self.extents(value), to=DATA_TYPES[element])

    def plain(self, value: SSAValue) -> SSAValue:
        """A value as it is stored: the integers of a quantized one."""
        if not isinstance(element_type(value.type), UniformType):
            return value
        return self.emit(SCastOp(value, with_element(value.type, _storage(value)))).results[0]

    def dequantized(self, value: SSAValue) -> SSAValue:
        """What codes mean."""
        quantized = cast("UniformType", quant_element(value.type))
        target = with_element(value.type, _BY_NAME[quantized.qparams.expressed])
        return self.emit(DCastOp(value, target)).results[0]

    def state(self, value: SSAValue, extents: Sequence[Extent]) -> None:
        """State the extents of a value, and fill them into its type.

        InputError (`invalid-torch`) where the program says a number and the op has another.
        """
        kind = cast("TensorType[Attribute]", value.type)
        own = [DYNAMIC if n < 0 else n for n in kind.get_shape()]
        said = static(extents)
        fits = len(own) == len(said) and all(
            DYNAMIC in (a, b) or a == b for a, b in zip(own, said, strict=True)
        )
        if not fits:
            raise self.invalid(f"has shape {list(said)} in the program, but gives {own}")
        filled = [b if a == DYNAMIC else a for a, b in zip(own, said, strict=True)]
        if filled != own:
            value._type = ranked(kind.element_type, filled)  # pyright: ignore[reportPrivateUsage]
        self.known_extents[value] = tuple(extents)

    # -- places and errors --------------------------------------------------------------

    def location(self, key: str) -> NameLoc:
        """The place of what is built now: its key, and the line of the model."""
        node = self.node
        if node is not None and node.source is not None:
            file, line = node.source
            return NameLoc(string(key), FileLineColLoc(string(file), IntAttr(line), _START))
        file = string(self.program.file or "<program>")
        return NameLoc(string(key), FileLineColLoc(file, IntAttr(0), IntAttr(0)))

    def invalid(self, reason: str) -> InputError:
        """An error of a program that says what cannot be."""
        return InputError(reason, where=self.program.where(self.node), code="invalid-torch")

    def unsupported(self, reason: str) -> InputError:
        """An error of a program that is right, and that we cannot read."""
        return InputError(reason, where=self.program.where(self.node), code="unsupported")


def static(shape: Sequence[Extent]) -> tuple[int, ...]:
    """Extents as types have them."""
    return tuple(DYNAMIC if n.number is None else n.number for n in shape)


_KINDS = {bool: "i1", int: "i64", float: "f32"}


def _numpy(name: str) -> Any:
    import numpy as np

    if name == "i1":
        return np.dtype(bool)
    if name.startswith("complex"):
        return np.dtype("c8" if name.endswith("f32>") else "c16")
    return np.dtype({"f": "f", "i": "i", "u": "u"}[name[0]] + str(int(name.lstrip("fui")) // 8))


def _storage(value: SSAValue) -> Attribute:
    return storage_type(cast("UniformType", quant_element(value.type)).qparams)
