"""The printer of MLIR text: writes what mlir-opt writes, with exact literals.

Float literals read back as the same bits, a dense attribute is a splat only if its bits are,
and large dense attributes are hexadecimal. `layout.LayoutPrinter`, the base, has the layout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from functools import lru_cache
from io import StringIO
from typing import IO, TYPE_CHECKING, Any, cast

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
    i1,
)
from xdsl.ir import Attribute, Operation

from qdialect.algebra.float_text import FORMATS, float_text
from qdialect.ir.context import QContext
from qdialect.plugins.mlir.write.layout import LayoutPrinter
from qdialect.plugins.mlir.write.style import PLAIN, Style

if TYPE_CHECKING:
    from qdialect.ir.ops.constants import BlobAttr
    from qdialect.ir.quant.types import UniformType

#: the name of `nn.constants.BlobAttr`
BLOB = "nn.blob"

#: the name of `quant.types.UniformType`
UNIFORM = "quant.uniform"


class MLIRPrinter(LayoutPrinter):
    """Prints to `stream`.

    With `external`, weights whose key is not in it are written out as `dense`, with data from
    the store of `ctx`.
    """

    def __init__(
        self,
        stream: IO[str] | None = None,
        *,
        ctx: QContext | None = None,
        external: Container[str] | None = None,
        style: Style = PLAIN,
        print_generic_format: bool = False,
        print_debuginfo: bool = False,
    ) -> None:
        super().__init__(
            stream, print_generic_format=print_generic_format, print_debuginfo=print_debuginfo
        )
        self.style = style
        self.ctx = ctx
        self.external = external
        #: texts of types by `id` of the type, which the entry refers to so that the `id` stays
        #: unique
        self._types: dict[int, tuple[Attribute, str]] = {}

    @override
    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if self.stream is None or "\n" in text:
            super().print_string(text, indent=indent)
        else:
            self._current_column += len(text)
            self.stream.write(text)

    @override
    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        if self.stream is None or self._next_line_callback:
            super()._print_new_line(indent, print_message)
        else:
            self._current_line += 1
            self._current_column = self.indent_num_spaces * (
                self._indent if indent is None else indent
            )
            self.stream.write("\n" + " " * self._current_column)

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
        elif kind.name == UNIFORM:
            text = f"!{UNIFORM}{cast('UniformType', kind).text}"
        else:
            text = self._captured(lambda: super(MLIRPrinter, self).print_attribute(kind))
        self._types[id(kind)] = kind, text
        return text

    def _tensor_text(self, kind: TensorType[Attribute]) -> str:
        dimensions = [
            "?x" if extent.data == DYNAMIC_INDEX else f"{extent.data}x" for extent in kind.shape
        ]
        encoding = ""
        if type(kind.encoding) is not NoneAttr:
            encoding = ", " + self._captured(lambda: self.print_attribute(kind.encoding))
        return f"tensor<{''.join(dimensions)}{self._type_text(kind.element_type)}{encoding}>"

    # -- attributes ----------------------------------------------------------

    @override
    def print_attribute(self, attribute: Attribute) -> None:
        """Write an attribute, spelled as MLIR reads it."""
        plain: Attribute = attribute
        if self.stream is not None and isinstance(attribute, TensorType):
            # The texts are cached, as models repeat a few types.
            self.print_string(self._type_text(cast("TensorType[Any]", attribute)))
        elif isinstance(attribute, DenseIntOrFPElementsAttr):
            self.print_string(self._dense_text(cast("DenseIntOrFPElementsAttr[Any]", attribute)))
        elif attribute.name == BLOB and self._is_inline(cast("BlobAttr", plain).key.data):
            assert self.ctx is not None
            data = self.ctx.blobs.get(cast("BlobAttr", plain).key.data).data
            kind = cast("TensorType[Any]", cast("BlobAttr", plain).type)
            dense = DenseIntOrFPElementsAttr(kind, BytesAttr(cast("bytes", data)))
            self.print_string(self._dense_text(dense))
        else:
            super().print_attribute(plain)

    @override
    def print_float(self, value: float, type: AnyFloat) -> None:
        """Write the shortest text that reads back to the same number."""
        if type.name in FORMATS:
            self.print_string(_float_text(value, type))
        else:
            super().print_float(value, type)

    @override
    def print_operation_type(self, op: Operation) -> None:
        """Write the function type of an op."""
        # xDSL's method adds the location, and `print_op` does so again when an op's custom
        # form asks for the type.
        self.print_function_type(op.operand_types, op.result_types)

    @override
    def print_op_with_default_format(self, op: Operation) -> None:
        """Write an op in the generic form."""
        super().print_op_with_default_format(op)
        if self.print_debuginfo:
            self.print_string(" ")
            self.print_attribute(op.location)

    def _is_inline(self, key: str) -> bool:
        return self.external is not None and key not in self.external

    def _dense_text(self, attribute: DenseIntOrFPElementsAttr[Any]) -> str:
        """`dense<[1, 2]> : tensor<2xi8>`."""
        data = memoryview(attribute.data.data)
        element = attribute.get_element_type()
        shape = attribute.get_shape()
        count = math.prod(shape)
        width = data.nbytes // count if count else 0
        text = ""
        if count > 1 and data[width:] == data[: data.nbytes - width]:
            text = self._element_texts(data[:width], 1, element)[0]
        elif self.style.elide_above is not None and count > self.style.elide_above:
            return f"dense_resource<__elided__> : {self._type_text(attribute.get_type())}"
        elif self.style.hex_above is not None and count > self.style.hex_above and element != i1:
            text = f'"0x{data.hex().upper()}"'
        elif count:
            text = _brackets(shape) % self._element_texts(data, count, element)
        return f"dense<{text}> : {self._type_text(attribute.get_type())}"

    def _element_texts(self, data: memoryview, count: int, element: Any) -> tuple[str, ...]:
        values = element.unpack(data, count)
        if isinstance(element, IntegerType):
            if element == i1:
                return tuple("true" if value else "false" for value in values)
            return tuple(map(str, values))
        if isinstance(element, AnyFloat) and element.name in FORMATS:
            return tuple(_float_text(value, element) for value in values)
        return tuple(self._captured(lambda v=v: self._print_element(v, element)) for v in values)

    def _print_element(self, value: Any, element: Any) -> None:
        if isinstance(element, ComplexType):
            self.print_complex(value, cast("ComplexType[Any]", element))
        elif isinstance(element, AnyFloat):
            self.print_float(value, element)
        else:
            self.print_int(value, element)


def _float_text(value: float, kind: AnyFloat) -> str:
    """Infinities and NaNs are written as their bits."""
    text = float_text(value, kind.name)
    if text.startswith("0x"):
        return f"0x{kind.pack((value,))[::-1].hex().upper()}"
    return text


@lru_cache(maxsize=64)
def _brackets(shape: tuple[int, ...]) -> str:
    """A format of nested brackets, one level for each dimension, with `%s` for each element."""
    text = "%s"
    for extent in reversed(shape):
        text = f"[{', '.join([text] * extent)}]"
    return text
