"""xDSL's printer, made to write what mlir-opt writes and to write weights fast."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    IntegerType,
    NoneAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.backends.mlir_layout import LayoutPrinter
from qdialect.context import QContext
from qdialect.numerics.float_text import FORMATS, float_text

if TYPE_CHECKING:
    from qdialect.backends.mlir_lines import Lines, Looks
    from qdialect.dialects.nn.constants import BlobAttr

#: the name of `nn.constants.BlobAttr`
BLOB = "nn.blob"

#: so many ops are printed without a memory: taking it up is not worth it
FEW = 32

#: mlir-opt writes dense attributes with more elements than this as hexadecimal bytes
HEX_ABOVE = 100


class Parts(NamedTuple):
    """The texts of an op that are its own: names of operands, types of operands and results,
    the tensor it holds, and its key with its name."""

    operands: Sequence[str]
    types: Sequence[str]
    results: Sequence[str]
    tensor: str
    key: str


@dataclass(eq=False, repr=False)
class MLIRPrinter(LayoutPrinter):
    """Float literals are exact; a dense attribute is a splat only if its bits are.

    With `external`, a weight whose key is not in it is written out as `dense`.
    """

    ctx: QContext | None = field(default=None, kw_only=True)
    external: Container[str] | None = field(default=None, kw_only=True)

    #: texts of types by identity of the type, which the entry keeps alive
    _types: dict[int, tuple[Attribute, str]] = field(
        default_factory=dict[int, "tuple[Attribute, str]"], init=False
    )
    _lines: Lines | None = field(default=None, init=False)
    _printed: int = field(default=0, init=False)

    # -- ops that look like one before ---------------------------------------

    @override
    def _print_op(self, op: Operation) -> None:
        if self._lines is None:
            self._printed += 1
            if self._printed <= FEW:
                return super()._print_op(op)
            from qdialect.backends.mlir_lines import Lines

            self._lines = Lines(self.print_generic_format)
        found = self._lines.look(op)
        if found is None or self.stream is None:
            return super()._print_op(op)
        results = self._results_text(op)
        parts = self._parts(op, found)
        text = self._lines.text(found.look, parts)
        if text is not None:
            text = results + text + self._location_text(op)
        else:
            text = self._captured(lambda: super(MLIRPrinter, self)._print_op(op))
            end = len(text) - len(self._location_text(op))
            self._lines.learn(found.look, op, parts, text[len(results) : end])
        self.print_string(text)

    def _results_text(self, op: Operation) -> str:
        """`%0 = `, or nothing."""
        results = op.results
        if len(results) == 1:
            return f"%{self._name(results[0])} = "
        return self._captured(lambda: self._print_results(op)) if results else ""

    def _location_text(self, op: Operation) -> str:
        if not self.print_debuginfo:
            return ""
        return " " + self._captured(lambda: self.print_attribute(op.location))

    def _parts(self, op: Operation, found: Looks) -> Parts:
        names: list[str] = []
        types: list[str] = []
        for value in op._operands:  # pyright: ignore[reportPrivateUsage]
            names.append(self._name(value))
            types.append(self._type_text(value.type))
        results = [self._type_text(value.type) for value in op.results]
        tensor = found.tensor
        held = "" if tensor is None else self._captured(lambda: self.print_attribute(tensor))
        key = "" if found.key is None else f'nn.key = "{found.key}"'
        return Parts(names, types, results, held, key)

    def _name(self, value: SSAValue) -> str:
        name = self._ssa_values.get(value)
        if name is not None:
            return name
        if value.name_hint:
            self._captured(lambda: self.print_ssa_value(value))
            return self._ssa_values[value]
        name = self._ssa_values[value] = self._get_new_valid_name_id()
        return name

    def _captured(self, write: Callable[[], object]) -> str:
        """What `write` prints."""
        stream, column = self.stream, self._current_column
        self.stream = StringIO()
        try:
            write()
            return self.stream.getvalue()
        finally:
            self.stream, self._current_column = stream, column

    def _type_text(self, kind: Attribute) -> str:
        known = self._types.get(id(kind))
        if known is not None:
            return known[1]
        if type(kind) is TensorType:
            text = self._tensor_text(kind)
        else:
            text = self._captured(lambda: super(MLIRPrinter, self).print_attribute(kind))
        self._types[id(kind)] = kind, text
        return text

    def _tensor_text(self, kind: TensorType[Attribute]) -> str:
        dimensions = [
            "?x" if extent == DYNAMIC_INDEX else f"{extent}x" for extent in kind.get_shape()
        ]
        encoding = ""
        if type(kind.encoding) is not NoneAttr:
            encoding = ", " + self._captured(lambda: self.print_attribute(kind.encoding))
        return f"tensor<{''.join(dimensions)}{self._type_text(kind.element_type)}{encoding}>"

    # -- attributes ----------------------------------------------------------

    @override
    def print_attribute(self, attribute: Attribute) -> None:
        plain: Attribute = attribute
        if self.stream is not None and isinstance(attribute, TensorType):
            # The second time from memory, as models repeat a few of them.
            self.print_string(self._type_text(cast("TensorType[Any]", attribute)))
        elif isinstance(attribute, DenseIntOrFPElementsAttr):
            self._print_dense(cast("DenseIntOrFPElementsAttr[Any]", attribute))
        elif attribute.name == BLOB and self._is_inline(cast("BlobAttr", plain).key.data):
            assert self.ctx is not None
            data = self.ctx.blobs.get(cast("BlobAttr", plain).key.data).data
            held = cast("TensorType[Any]", cast("BlobAttr", plain).type)
            self._print_dense(DenseIntOrFPElementsAttr(held, BytesAttr(cast("bytes", data))))
        else:
            super().print_attribute(plain)

    @override
    def print_float(self, value: float, type: AnyFloat) -> None:
        text = float_text(value, type.name) if type.name in FORMATS else ""
        if text.startswith("0x") or not math.isfinite(value):
            text = f"0x{type.pack((value,))[::-1].hex().upper()}"
        if text:
            self.print_string(text)
        else:
            super().print_float(value, type)

    @override
    def print_operation_type(self, op: Operation) -> None:
        # The stock method adds the location, and `print_op` does so again when it is
        # an op's custom form that asks for the type.
        self.print_function_type(op.operand_types, op.result_types)

    @override
    def print_op_with_default_format(self, op: Operation) -> None:
        super().print_op_with_default_format(op)
        if self.print_debuginfo:
            self.print_string(" ")
            self.print_attribute(op.location)

    def _is_inline(self, key: str) -> bool:
        return self.external is not None and key not in self.external

    def _print_dense(self, attribute: DenseIntOrFPElementsAttr[Any]) -> None:
        data = memoryview(attribute.data.data)
        element = attribute.get_element_type()
        shape = attribute.get_shape()
        count = math.prod(shape)
        width = data.nbytes // count if count else 0
        text = ""
        if count > 1 and data[width:] == data[: data.nbytes - width]:
            text = self._element_text(element.unpack(data[:width], 1)[0], element)
        elif count > HEX_ABOVE and element != IntegerType(1):
            text = f'"0x{data.hex().upper()}"'
        elif count:
            values = element.unpack(data, count)
            if isinstance(element, IntegerType) and element != IntegerType(1):
                texts = [str(value) for value in values]
            else:
                texts = [self._element_text(value, element) for value in values]
            text = _nested(texts, shape)
        self.print_string(f"dense<{text}> : ")
        self.print_attribute(attribute.get_type())

    def _element_text(self, value: Any, element: Any) -> str:
        if isinstance(element, ComplexType):
            kind = cast("ComplexType[Any]", element)
            return self._captured(lambda: self.print_complex(value, kind))
        if isinstance(element, AnyFloat):
            return self._captured(lambda: self.print_float(value, element))
        return self._captured(lambda: self.print_int(value, element))


def _nested(texts: list[str], shape: Sequence[int]) -> str:
    """The elements of a tensor in brackets, for each dimension of it."""
    for extent in reversed(shape):
        texts = [
            f"[{', '.join(texts[start : start + extent])}]"
            for start in range(0, len(texts), extent)
        ]
    return texts[0]
