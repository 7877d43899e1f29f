"""Reads attributes and types as MLIR 22 writes them: the part of the parser below ops.

Beyond xDSL's parser: semi-affine maps; hexadecimal floats, alone and in complex numbers; bits of
i1; string literals with types; what xDSL has no class for, as text (see `ir.dialects.verbatim`):

- `sparse<...>` and `distinct[...]<...>`;
- `dense` and `array` of strings, of integers wider than 64 bits, of f80 and f128;
- attributes and types of dialects that nobody registered, with any balanced text;
- those of upstream's dialects that xDSL's classes do not read.

Some of this overrides private methods of xDSL's parser; `OVERRIDDEN` lists them.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any, cast

from typing_extensions import override
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    BytesAttr,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    NoneAttr,
    ShapedType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnregisteredAttr,
)
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineMap, AffineSet
from xdsl.parser import AttrParser, Parser
from xdsl.utils.lexer import Position
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qdialect.ir.dialects.verbatim import VerbatimAttr, VerbatimType
from qdialect.plugins.mlir.upstream import OTHER_DIALECTS

OVERRIDDEN = (
    "_parse_builtin_dense_attr",
    "_parse_builtin_densearray_attr",
    "_parse_dense_literal_type",
    "_parse_extended_type_or_attribute",
    "_parse_optional_builtin_attr",
    "_parse_optional_builtin_parametrized_attr",
    "_parse_optional_symref_attr",
    "_parse_tensor_literal_element",
    "_raw_scan_balanced",
    "_resume_from",
)
for _name in OVERRIDDEN:
    getattr(Parser, _name)

_HEX_ARRAY = re.compile(r"<\s*(?:b?f[0-9]+|f[468]E\w+)\s*:[^>]*\b0[xX]")
_HEX_FLOAT = re.compile(r"0[xX]([0-9A-Fa-f]+)\s*:\s*(b?f16|f32|f80|f128)\b")
_PACKED_BITS = re.compile(r'<\s*"0x([0-9A-Fa-f]*)"\s*>\s*:\s*(?=(?:tensor|vector)<[][0-9x]*i1>)')
_DIMENSIONS = re.compile(r"(?:[0-9]{1,18}|\?)(?:x(?:[0-9]{1,18}|\?))*(?=x[^\s/0-9?])")
_NESTED = re.compile(r"(?:::@[A-Za-z_][\w$.]*)+", re.ASCII)
_ALIAS = re.compile(r'"(?:[^"\\]|\\.)*"|([#!][A-Za-z_$][\w$.-]*)')
_ALIAS_SIGN = re.compile("[#!]")
_Literal = AttrParser._TensorLiteralElement  # pyright: ignore[reportPrivateUsage]

#: a dense literal of one value for thousands of elements
_SPLAT = re.compile(
    r'<\s*(?:-?[0-9][\w.+-]*|true|false|\([^()]*\)|"0x[0-9A-Fa-f]*")\s*>\s*:\s*'
    r"(?:!|\w+<(?=[0-9x]{6})[0-9]+(?:x[0-9]+)*x)"
)
#: a value for elements of more bytes is kept as text
_MOST_BYTES = 1 << 30
#: the bits of infinity and of the mantissa's first digit: a NaN with others is no Python float
_NAN = {"f16": (0x7C00, 0x200), "bf16": (0x7F80, 0x40), "f32": (0x7F800000, 0x400000)}
#: dialects whose attributes are all known: what their classes refuse is wrong
_KNOWN_ATTRIBUTES = frozenset(("builtin", "arith", "func", "nn", "onnx", "quant", "tosa"))
#: the widest integers that xDSL packs
_WIDEST = 64


class AttributeReader(Parser):
    """xDSL's parser with the attributes, types and literals of MLIR 22."""

    # -- lists of thousands, which take a token each in xDSL's parser --------------------

    @override
    def parse_dimension_list(self) -> list[int]:
        """The extents from here on; the lexer would read `x1x1..` again for each."""
        found = _DIMENSIONS.match(self.lexer.input.content, self.pos)
        if found is None:
            return super().parse_dimension_list()
        self._resume_from(found.end())
        return [DYNAMIC_INDEX if n == "?" else int(n) for n in found[0].split("x")]

    @override
    def _parse_optional_symref_attr(self) -> SymbolRefAttr | None:
        root = self.parse_optional_symbol_name()
        if root is None:
            return None
        names: list[StringAttr] = []
        content = self.lexer.input.content
        while content.startswith("::", self.pos):
            plain = _NESTED.match(content, self.pos)
            if plain is None:
                self._resume_from(self.pos + 2)
                names.append(self.parse_symbol_name())
            else:
                names += map(StringAttr, plain[0][3:].split("::@"))
                self._resume_from(plain.end())
        return SymbolRefAttr(root, ArrayAttr(names))

    # -- aliases and dialects ----------------------------------------------------

    def find_alias(self, name: str) -> Attribute | None:
        """What `#name` or `!name` stands for, if it is an alias."""
        return self.attribute_aliases.get(name)

    @override
    def _parse_extended_type_or_attribute(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, attr_or_dialect_name: str, is_type: bool
    ) -> Attribute:
        sign = "!" if is_type else "#"
        alias = self.find_alias(sign + attr_or_dialect_name)
        # xDSL's parser takes a dot in the name for a dialect's attribute.
        if alias is not None:
            return alias
        dialect = attr_or_dialect_name.partition(".")[0]
        if dialect in _KNOWN_ATTRIBUTES:
            return self._parse_of_known_dialect(attr_or_dialect_name, is_type)
        if self.is_unknown_dialect(dialect):
            return self._parse_opaque(sign + attr_or_dialect_name, is_type)
        start = self.pos
        try:
            return self._parse_of_known_dialect(attr_or_dialect_name, is_type)
        except Exception:
            # A class of xDSL that lacks what upstream has; the text is kept if it is balanced.
            self._resume_from(start)
            return self._parse_opaque(sign + attr_or_dialect_name, is_type)

    def _parse_of_known_dialect(self, name: str, is_type: bool) -> Attribute:
        parse: Any = super()._parse_extended_type_or_attribute
        found = parse(name, is_type)
        if isinstance(found, UnregisteredAttr) and _ALIAS_SIGN.search(found.value.data):
            body = StringAttr(self._without_aliases(found.value.data))
            return found.new((*found.parameters[:-1], body))
        return found

    def is_unknown_dialect(self, dialect: str) -> bool:
        """Whether attributes of `dialect` are text to mlir-opt, or to us."""
        if dialect not in self.ctx.registered_dialect_names:
            return self.ctx.allow_unregistered or dialect in OTHER_DIALECTS
        return dialect == "test" and self.ctx.allow_unregistered

    def _parse_opaque(self, name: str, is_type: bool) -> Attribute:
        """An attribute or type whose name was read, as its text."""
        body = ""
        if self._current_token.kind is MLIRTokenKind.LESS:
            start = self._current_token.span.start
            end = self._raw_scan_balanced(start + 1) + 1
            body = self.lexer.input.content[start:end]
            self._resume_from(end)
        elif "." not in name:
            self.raise_error(f"undefined symbol alias '{name}'")
        dialect = name[1:].partition(".")[0]
        if dialect in OTHER_DIALECTS or dialect in self.ctx.registered_dialect_names:
            # To mlir-opt the body is no text, and it writes aliases in it.
            body = self._without_aliases(body)
        text = StringAttr(name + body)
        if is_type:
            return VerbatimType(text)
        return VerbatimAttr(text, self._parse_optional_colon_type())

    def _parse_optional_colon_type(self) -> Attribute:
        """The type behind a colon; `NoneAttr` if there is none."""
        if self._current_token.kind is not MLIRTokenKind.COLON:
            return NoneAttr()
        start = self.pos
        self.parse_punctuation(":")
        kind = self.parse_optional_type()
        if kind is None:
            self._resume_from(start)
            return NoneAttr()
        return kind

    def _without_aliases(self, text: str) -> str:
        """`text` with what its aliases stand for in their place."""

        def replaced(found: re.Match[str]) -> str:
            alias = self.find_alias(found[1]) if found[1] else None
            return found[0] if alias is None else str(alias)

        return _ALIAS.sub(replaced, text)

    # -- builtin attributes ----------------------------------------------------

    @override
    def _parse_optional_builtin_attr(self) -> Attribute | None:
        token = self._current_token
        if token.kind in (MLIRTokenKind.STRING_LIT, MLIRTokenKind.BYTES_LIT):
            literal = super()._parse_optional_builtin_attr()
            if self._current_token.kind is MLIRTokenKind.COLON:
                kind = self._parse_optional_colon_type()
                if not isinstance(kind, NoneAttr):
                    return VerbatimAttr(StringAttr(token.text), kind)
            return literal
        if token.kind is MLIRTokenKind.INTEGER_LIT:
            found = _HEX_FLOAT.match(self.lexer.input.content, self.pos)
            if found is not None and not _is_python_float(int(found[1], 16), found[2]):
                self._consume_token()
                return VerbatimAttr(StringAttr(token.text), self._parse_optional_colon_type())
        return super()._parse_optional_builtin_attr()

    @override
    def _parse_optional_builtin_parametrized_attr(self) -> Attribute | None:
        token = self._current_token
        if token.kind is MLIRTokenKind.BARE_IDENT and token.text in ("sparse", "distinct"):
            self._consume_token()
            return self._parse_verbatim(token.span.start)
        return super()._parse_optional_builtin_parametrized_attr()

    def _parse_verbatim(self, start: Position) -> VerbatimAttr:
        """The attribute from `start` on, up to the end of its angle brackets and its type."""
        content = self.lexer.input.content
        while self._current_token.kind is not MLIRTokenKind.LESS:
            if self._current_token.kind is MLIRTokenKind.EOF:
                self.raise_error("expected '<'")
            self._consume_token()
        end = self._raw_scan_balanced(self._current_token.span.start + 1) + 1
        self._resume_from(end)
        text = StringAttr(self._without_aliases(content[start:end]))
        return VerbatimAttr(text, self._parse_optional_colon_type())

    @override
    def _parse_builtin_dense_attr(self) -> Any:
        start = self.pos
        bits = _PACKED_BITS.match(self.lexer.input.content, start)
        if bits is not None:
            return self._parse_packed_bits(bits)
        try:
            return super()._parse_builtin_dense_attr()
        except (_NotAPythonFloat, _TooLarge):
            pass
        except Exception:
            if not self._is_of_unusual_elements(start):
                raise
        self._resume_from(start)
        return self._with_name("dense", start)

    def _with_name(self, name: str, start: Position) -> VerbatimAttr:
        found = self._parse_verbatim(start)
        return VerbatimAttr(StringAttr(name + found.text.data), found.type)

    def _is_of_unusual_elements(self, start: Position) -> bool:
        """Whether the type behind the brackets at `start` has elements that xDSL cannot pack."""
        try:
            self._resume_from(self._raw_scan_balanced(start + 1) + 1)
            kind = self._parse_optional_colon_type()
        except Exception:
            return False
        return isinstance(kind, ShapedType) and _is_unusual(cast("Any", kind).get_element_type())

    def _parse_packed_bits(self, found: re.Match[str]) -> Any:
        """A `dense` of i1 from bytes of eight bits, the lowest first."""
        start = self.pos
        self._resume_from(found.end())
        kind = cast("Any", self.parse_type())
        data = bytes.fromhex(found[1])
        count = 1
        for extent in kind.get_shape():
            count *= extent
        splat = len(data) == 1 and data[0] in (0, 255)
        if splat and count > _MOST_BYTES:
            self._resume_from(start)
            return self._with_name("dense", start)
        if not splat and len(data) != (count + 7) // 8:
            self.raise_error("hex data does not have the size of its type", start)
        values = (
            [bool(data[0])] * count
            if splat
            else [bool(data[index // 8] >> index % 8 & 1) for index in range(count)]
        )
        return DenseIntOrFPElementsAttr.from_list(kind, values)

    @override
    def _parse_builtin_densearray_attr(self) -> Any:
        start = self.pos
        try:
            if _HEX_ARRAY.match(self.lexer.input.content, start) is not None:
                return self._parse_array_of_bits()
            return super()._parse_builtin_densearray_attr()
        except (NotImplementedError, _NotAPythonFloat):
            self._resume_from(start)
            return self._with_name("array", start)

    def _parse_array_of_bits(self) -> DenseArrayBase[Any]:
        self.parse_punctuation("<")
        element = self.parse_type()
        assert isinstance(element, AnyFloat)
        self.parse_punctuation(":")
        values = self.parse_comma_separated_list(
            self.Delimiter.NONE,
            lambda: self._parse_tensor_literal_element().to_type(self, element),
        )
        self.parse_punctuation(">")
        return DenseArrayBase.from_list(element, values)

    @override
    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> Any:
        """As xDSL's, but a value for all elements is packed once."""
        found = None if type is not None else _SPLAT.match(self.lexer.input.content, self.pos)
        if found is None:
            return super().parse_dense_int_or_fp_elements_attr(type)
        start = self.pos
        with self.in_angle_brackets():
            bits = self.parse_optional_str_literal()
            literal = self._parse_tensor_literal_element() if bits is None else None
        self.parse_punctuation(":")
        kind: Any = self._parse_dense_literal_type()
        element = kind.element_type
        if literal is None:
            data = bytes.fromhex(cast("str", bits)[2:])
            if len(data) != element.compile_time_size:
                self._resume_from(start)
                return super().parse_dense_int_or_fp_elements_attr(type)
        else:
            one: Any = DenseIntOrFPElementsAttr.from_list(
                TensorType(element, [1]), [literal.to_type(self, element)]
            )
            data = one.data.data
        if len(data) * prod(kind.get_shape()) > _MOST_BYTES:
            raise _TooLarge
        return DenseIntOrFPElementsAttr(kind, BytesAttr(data * prod(kind.get_shape())))

    @override
    def _parse_tensor_literal_element(self) -> Any:
        if self._current_token.kind is MLIRTokenKind.L_PAREN:
            start = self._current_token.span
            with self.in_parens():
                real = self._parse_tensor_literal_element()
                self.parse_punctuation(",")
                imaginary = self._parse_tensor_literal_element()
            return _Complex(False, (real, imaginary), start)  # pyright: ignore
        element = super()._parse_tensor_literal_element()
        if isinstance(element.value, int) and element.span.text.lstrip("-")[:2] in ("0x", "0X"):
            return _Bits(element.is_negative, element.value, element.span)
        return element

    # -- affine maps -------------------------------------------------------------

    @override
    def parse_affine_map(self) -> AffineMap:
        """The map behind `affine_map<`."""
        from qdialect.plugins.mlir.upstream.affine import AffineReader

        return AffineReader(self._parser_state).parse_affine_map()

    @override
    def parse_affine_set(self) -> AffineSet:
        """The set behind `affine_set<`."""
        from qdialect.plugins.mlir.upstream.affine import AffineReader

        return AffineReader(self._parser_state).parse_affine_set()


def _is_unusual(element: Attribute) -> bool:
    """Whether literals of this element type are kept as text."""
    if isinstance(element, ComplexType):
        return _is_unusual(cast("ComplexType[Any]", element).element_type)
    if isinstance(element, IntegerType):
        return cast("Any", element).width.data > _WIDEST
    if isinstance(element, AnyFloat):
        return element.name in ("f80", "f128")
    return not isinstance(element, IndexType)


class _TooLarge(Exception):
    """One value stands for more elements than are packed."""


class _NotAPythonFloat(Exception):
    """A literal has bits that a Python float would lose."""


def _is_python_float(bits: int, kind: str) -> bool:
    """Whether the float of type `kind` with these bits keeps them as a Python float."""
    if kind in ("f80", "f128"):
        return False
    if kind not in _NAN:
        return True
    infinity, quiet = _NAN[kind]
    mantissa = bits & (2 * quiet - 1)
    too_wide = bits > 2 * (infinity + 2 * quiet) - 1
    return too_wide or bits & infinity != infinity or mantissa in (0, quiet)


class _Bits(_Literal):
    """A hexadecimal literal: for a float type it is the value's bits."""

    @override
    def to_type(
        self, parser: AttrParser, type: AnyFloat | IntegerType | IndexType | ComplexType[Any]
    ) -> Any:
        if not isinstance(type, AnyFloat):
            return super().to_type(parser, type)
        width = type.compile_time_size
        bits = cast("int", self.value)
        if self.is_negative:
            parser.raise_error(
                "hexadecimal float literal should not have a leading minus", self.span
            )
        if bits >> 8 * width:
            parser.raise_error("hexadecimal float constant out of range for type", self.span)
        if not _is_python_float(bits, type.name):
            raise _NotAPythonFloat
        return next(type.iter_unpack(bits.to_bytes(width, "little")))


class _Complex(_Literal):
    """A literal of two parts."""

    @override
    def to_type(
        self, parser: AttrParser, type: AnyFloat | IntegerType | IndexType | ComplexType[Any]
    ) -> Any:
        if not isinstance(type, ComplexType):
            parser.raise_error("expected a literal without parentheses", self.span)
        parts = cast("tuple[Any, Any]", self.value)
        return tuple(part.to_type(parser, type.element_type) for part in parts)
