"""xDSL's printer, made to write what mlir-opt writes and to write weights fast."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import IO, Any, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, Operation

from qdialect.backends.mlir_layout import LayoutPrinter
from qdialect.context import QContext
from qdialect.dialects.nn.constants import BlobAttr
from qdialect.numerics.float_text import FORMATS, float_text

#: mlir-opt writes dense attributes with more elements than this as hexadecimal bytes
HEX_ABOVE = 100


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

    @override
    def print_attribute(self, attribute: Attribute) -> None:
        plain: Attribute = attribute
        if self.stream is not None and isinstance(attribute, TensorType):
            self._print_once(cast("TensorType[Any]", attribute), self.stream)
        elif isinstance(attribute, DenseIntOrFPElementsAttr):
            self._print_dense(cast("DenseIntOrFPElementsAttr[Any]", attribute))
        elif isinstance(attribute, BlobAttr) and self._is_inline(attribute.key.data):
            assert self.ctx is not None
            data = self.ctx.blobs.get(attribute.key.data).data
            held = cast("TensorType[Any]", attribute.type)
            self._print_dense(DenseIntOrFPElementsAttr(held, BytesAttr(cast("bytes", data))))
        else:
            super().print_attribute(plain)

    def _print_once(self, kind: Attribute, stream: IO[str]) -> None:
        """Print a type; the second time from memory, as models repeat a few of them."""
        known = self._types.get(id(kind))
        if known is None:
            self.stream = StringIO()
            try:
                super().print_attribute(kind)
                known = kind, self.stream.getvalue()
            finally:
                self.stream = stream
            self._types[id(kind)] = known
        stream.write(known[1])

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
        self.print_string("dense<")
        data = memoryview(attribute.data.data)
        element = attribute.get_element_type()
        shape = attribute.get_shape()
        count = math.prod(shape)
        width = data.nbytes // count if count else 0
        if count > 1 and data[width:] == data[: data.nbytes - width]:
            self._print_element(element.unpack(data[:width], 1)[0], element)
        elif count > HEX_ABOVE and element != IntegerType(1):
            self.print_string(f'"0x{data.hex().upper()}"')
        elif count:
            self._print_nested(element.unpack(data, count), shape, element)
        self.print_string("> : ")
        super().print_attribute(attribute.get_type())

    def _print_nested(self, values: Sequence[Any], shape: Sequence[int], element: Any) -> None:
        if not shape:
            self._print_element(values[0], element)
            return
        step = len(values) // shape[0]
        self.print_string("[")
        for start in range(0, len(values), step):
            if start:
                self.print_string(", ")
            self._print_nested(values[start : start + step], shape[1:], element)
        self.print_string("]")

    def _print_element(self, value: Any, element: Any) -> None:
        if isinstance(element, ComplexType):
            self.print_complex(value, cast("ComplexType[Any]", element))
        elif isinstance(element, AnyFloat):
            self.print_float(value, element)
        else:
            self.print_int(value, element)
