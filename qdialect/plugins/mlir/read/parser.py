"""The parser of MLIR text: xDSL's, extended to read what mlir-opt writes.

Beyond xDSL's parser: every op and block argument gets its position in the text as
location; location aliases may stand after their use (where mlir-opt prints them),
and other aliases too; `loc` may carry metadata or a range; hexadecimal floats in
dense literals mean bits; strings with escapes beyond ASCII are strings; `arith.trunci` takes
overflow flags; `dense_resource` blobs belong to the session, not to the process; the parser
keeps `external_resources`.

Some of this overrides private methods of xDSL's parser.  `OVERRIDDEN` lists them and
importing this module fails if a release of xDSL no longer has one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import override
from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    Builtin,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    ModuleOp,
    NoneAttr,
    StringAttr,
    TensorType,
    UnregisteredAttr,
    UnregisteredOp,
)
from xdsl.ir import (
    Attribute,
    AttributeInvT,
    Block,
    BlockArgument,
    Dialect,
    Operation,
    SSAValue,
    TypeAttribute,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.parser.generic_parser import ParserState
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Position, Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from qdialect.errors import Where
from qdialect.ir import quant
from qdialect.ir.dialects.verbatim import RangeEndAttr
from qdialect.plugins.mlir.read.aliases import AliasExtents
from qdialect.plugins.mlir.read.attributes import AttributeReader
from qdialect.plugins.mlir.read.types import TENSOR, TensorTypes
from qdialect.plugins.mlir.resources import ResourceTable
from qdialect.plugins.mlir.upstream import parse_custom_form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdialect.plugins.mlir.read.line_templates import LineTemplates

#: only texts with more characters are read with `LineTemplates`, which take time to import
TEMPLATES_ABOVE = 4000

OVERRIDDEN = (
    "_get_op_by_name",
    "_parse_alias_def",
    "_parse_block_body",
    "_parse_dialect_resource_handle",
    "_parse_external_resources",
    "_parse_file_metadata_dictionary",
    "_parse_generic_operation",
    "_parse_location",
    "_parse_op_result_list",
    "_parse_optional_builtin_parametrized_attr",
    "_parse_optional_builtin_type",
    "_register_ssa_definition",
    "_resume_from",
)
for _name in OVERRIDDEN:
    getattr(Parser, _name)
for _name in ("_unescaped_characters_regex", "_lex_string_literal"):
    getattr(MLIRLexer, _name)

#: dialects of which every op is known
_CLOSED = frozenset(("quant", "nn", "onnx"))
_NEWLINE = re.compile("\n")
_ALIAS_DEFINITION = re.compile(r"^([#!][A-Za-z$._-][\w$.-]*|[#!][0-9]+)[ \t]*=", re.MULTILINE)


class Positions:
    """Lines and columns of positions in a text, which starts after `line_offset` lines of the
    file called `name`."""

    def __init__(self, text: str, name: str, line_offset: int = 0) -> None:
        self._starts = [0, *(found.end() for found in _NEWLINE.finditer(text))]
        self._offset = line_offset
        self.name = name

    def line_and_column(self, position: int) -> tuple[int, int]:
        """Both from 1."""
        row = bisect_right(self._starts, position)
        return row + self._offset, position - self._starts[row - 1] + 1

    def where(self, position: int) -> Where:
        """File, line and column, for an error."""
        return Where(self.name, *self.line_and_column(position))


class _Lexer(MLIRLexer):
    """xDSL's lexer with two errors in strings corrected: its pattern takes exponential time on
    an open quote, and text with escapes beyond ASCII is bytes to it."""

    _unescaped_characters_regex = re.compile(
        r'"[^"\\\n\v\f]*(?:\\(?:["nt\\]|[0-9A-Fa-f]{2})[^"\\\n\v\f]*)*"'
    )

    @override
    def _lex_string_literal(self, start_pos: Position) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        if token.kind is not MLIRTokenKind.BYTES_LIT:
            return token
        literal = StringLiteral.from_span(token.span)
        try:
            literal.bytes_contents.decode()
        except UnicodeDecodeError:
            return token
        return Token(MLIRTokenKind.STRING_LIT, literal)


class MLIRParser(AttributeReader):
    """Parses one text. `use_templates=False` reads every line with xDSL's parser, to compare."""

    def __init__(
        self, ctx: Context, text: str, positions: Positions, *, use_templates: bool = True
    ) -> None:
        self._positions = positions
        self._file = StringAttr(positions.name)
        self._op_name_positions: list[int] = []
        #: where values were first used that were not defined yet, by name
        self._first_uses: dict[str, int] = {}
        #: the op whose generic form is read
        self._generic_op: type[Operation] | None = None
        self._unread_aliases = {m.group(1): m.start() for m in _ALIAS_DEFINITION.finditer(text)}
        self._types = TensorTypes()
        self._aliases_read_ahead: set[str] = set()
        self._extents = AliasExtents()
        self._handles: dict[tuple[str, str], str] = {}
        self.external_resources: dict[str, dict[str, str | bool]] = {}
        self._templates: LineTemplates | None = None
        if use_templates and len(text) > TEMPLATES_ABOVE:
            from qdialect.plugins.mlir.read.line_templates import LineTemplates

            self._templates = LineTemplates(
                text,
                self._file,
                self._types.known,
                positions.line_and_column,
                self._read_type_at,
                self._read_location_at,
            )
        separate_resources(ctx)
        # As xDSL's constructor does, which takes no other lexer.
        AttrParser.__init__(self, ParserState(_Lexer(Input(text, positions.name))), ctx)
        self.ssa_values = {}
        self.blocks = {}
        self.forward_block_references = defaultdict(list)
        self.forward_ssa_references = {}

    def _location(self, position: int) -> FileLineColLoc:
        line, column = self._positions.line_and_column(position)
        return FileLineColLoc(self._file, IntAttr(line), IntAttr(column))

    @override
    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """The module of a whole text, which may be empty."""
        self._consume_definitions()
        if self._current_token.kind is MLIRTokenKind.EOF:
            return ModuleOp([])
        module = super().parse_module(allow_implicit_module)
        fault = self._extents.fault_of_module(module, len(self.lexer.input.content))
        if fault is not None:
            self.raise_error(fault)
        return module

    def _consume_definitions(self) -> None:
        """Read aliases and resources at the beginning of the text."""
        while True:
            kind = self._current_token.kind
            if kind in (MLIRTokenKind.HASH_IDENT, MLIRTokenKind.EXCLAMATION_IDENT):
                self._parse_alias_def()
            elif kind is MLIRTokenKind.FILE_METADATA_BEGIN:
                self._parse_file_metadata_dictionary()
            else:
                return

    # -- many ops at once ------------------------------------------------------

    @override
    def _parse_block_body(self, block: Block) -> None:
        templates = self._templates
        if templates is None:
            return super()._parse_block_body(block)
        while True:
            start = self.pos
            ops, end = templates.read(start, self.ssa_values, self.forward_ssa_references)
            if ops:
                block.add_ops(ops)
                start = end
            if self.pos != start:
                self._resume_from(start)
                start = self.pos
            op = self.parse_optional_operation()
            if op is None:
                return None
            block.add_op(op)
            templates.learn(start, op)

    def _read_type_at(self, position: int) -> bool:
        """Read the type at `position`, if there is one; this moves the parser."""
        found = TENSOR.match(self.lexer.input.content, position)
        if found is not None and self._types.read(found.group()) is not None:
            return True
        try:
            self._resume_from(position)
            return self.parse_optional_type() is not None
        except Exception:
            return False

    def _read_location_at(self, position: int, end: int) -> LocationAttr | None:
        """The location from `position` to `end`, if there is one; this moves the parser."""
        try:
            self._resume_from(position)
            location = self.parse_optional_location()
        except Exception:
            return None
        behind = self.lexer.input.content[end : self.pos]
        return None if self.pos < end or behind.strip() else location

    # -- locations of ops and block arguments --------------------------------

    @override
    def parse_operation(self) -> Operation:
        start = self._current_token.span
        results = self._parse_op_result_list()
        word = self._parse_optional_token(MLIRTokenKind.BARE_IDENT)
        name = self.parse_str_literal("operation name expected") if word is None else word.text
        kind = self._get_op_by_name(name)
        stack = self._parser_state.dialect_stack
        stack.append(kind.dialect_name())
        if word is None:
            op = self._parse_generic_operation(kind)
        else:
            op = self._parse_custom_operation(kind, name)
        stack.pop()
        position = self._op_name_positions.pop()
        if op.location is UNKNOWN_LOC:
            op.location = self._location(position)
        self._bind_results(op, results, start)
        return op

    def _parse_custom_operation(self, kind: type[Operation], word: str) -> Operation:
        op = parse_custom_form(kind, self)
        if op is None:
            start = self._op_name_positions[-1]
            name = word if issubclass(kind, UnregisteredOp) else kind.name
            self.raise_error(
                f"no custom form of '{name}' is known here: write the file in generic form, "
                "with mlir-opt --mlir-print-op-generic",
                start,
                start + len(word),
            )
        location = self.parse_optional_location()
        if location is not None:
            op.location = location
        return op

    def _bind_results(self, op: Operation, names: list[tuple[Span, int]], start: Span) -> None:
        count = sum(size for _, size in names)
        if count and count != len(op.results):
            self.raise_error(
                f"Operation has {len(op.results)} results, but was given {count} to bind.", start
            )
        first = 0
        for span, size in names:
            results = op.results[first : first + size]
            self._register_ssa_definition(span.text[1:], results, span)
            first += size

    @override
    def _parse_op_result_list(self) -> list[tuple[Span, int]]:
        results = super()._parse_op_result_list()
        for span, size in results:
            if not size:
                message = "expected named operation to have at least 1 result"
                self.raise_error(message, span.end + 1, span.end + 1)
        self._op_name_positions.append(self.pos)
        return results

    @override
    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        for value in values:
            if isinstance(value, BlockArgument) and value.location is UNKNOWN_LOC:
                value.location = self._location(span.start)
        super()._register_ssa_definition(name, values, span)
        self._first_uses.pop(name, None)

    @override
    def resolve_operand(
        self, operand: UnresolvedOperand, type: AttributeInvT
    ) -> SSAValue[AttributeInvT]:
        """The value of an operand; one that is not defined yet is looked for until the end."""
        if operand.operand_name not in self.ssa_values:
            self._first_uses.setdefault(operand.operand_name, operand.span.start)
        try:
            return super().resolve_operand(operand, type)
        except ParseError as error:
            for value in self.ssa_values.get(operand.operand_name, ())[operand.index :][:1]:
                error.msg += quant.difference(type, value.type)
            raise

    def undefined(self) -> list[int]:
        """Where values are first used that nothing in the text defines."""
        places = (self._first_uses.get(name) for name in self.forward_ssa_references)
        return sorted(place for place in places if place is not None)

    @override
    def _parse_generic_operation(self, op_type: type[Operation]) -> Operation:
        self._generic_op = op_type
        return super()._parse_generic_operation(op_type)

    @override
    def parse_optional_successors(self) -> list[Block] | None:
        """The blocks behind the operands of an op in the generic form, if it has some."""
        if self._current_token.kind is MLIRTokenKind.L_SQUARE:
            kind = self._generic_op
            if kind is not None and not kind.has_trait(IsTerminator, value_if_unregistered=True):
                self.raise_error("successors in non-terminator")
        return super().parse_optional_successors()

    # -- types -----------------------------------------------------------------

    @override
    def _parse_optional_builtin_type(self) -> TypeAttribute | None:
        """Parse each tensor type once: models repeat a few types thousands of times, and
        types are most of the text."""
        found = TENSOR.match(self.lexer.input.content, self.pos)
        if found is None:
            return super()._parse_optional_builtin_type()
        text = found.group()
        kind = self._types.read(text)
        if kind is None:
            start = self.pos
            kind = super()._parse_optional_builtin_type()
            if _largest_extent(kind) >= 1 << 63:
                self.raise_error("invalid dimension", start, self.pos)
            if kind is not None and self.lexer.input.content[found.end() - 1] == ">":
                self._types.learn(text, kind)
            return kind
        self._resume_from(found.end())
        return kind

    # -- aliases and `loc` ---------------------------------------------------

    @override
    def _parse_alias_def(self) -> None:
        name = self._current_token.text
        if name not in self._aliases_read_ahead:
            start = self.pos
            if "." in name:
                kind = "type" if name[0] == "!" else "attribute"
                self.raise_error(
                    f"{kind} names with a '.' are reserved for dialect-defined names", start, start
                )
            super()._parse_alias_def()
            fault = self._extents.fault(self.attribute_aliases[name])
            if fault is not None:
                self.raise_error(fault, start, start + len(name))
            return
        self._aliases_read_ahead.remove(name)
        self._consume_token()
        self.parse_punctuation("=")
        self.parse_attribute()

    @override
    def find_alias(self, name: str) -> Attribute | None:
        """What `#name` or `!name` stands for, if it is an alias, defined above or below."""
        if name not in self.attribute_aliases and name in self._unread_aliases:
            self._read_definition(name)
        return self.attribute_aliases.get(name)

    @override
    def _parse_of_known_dialect(self, name: str, is_type: bool) -> Attribute:
        dialect, _, kind = name.partition(".")
        if is_type and dialect == "quant" and kind:
            found = self.ctx.get_optional_type(name)
            if found is None or issubclass(found, UnregisteredAttr):
                start = self.lexer.input.content.rfind(kind, 0, self.pos)
                self.raise_error(f"unknown quantized type {kind}", start, start)
        return super()._parse_of_known_dialect(name, is_type)

    def _read_definition(self, name: str) -> None:
        back = self.pos
        self._resume_from(self._unread_aliases.pop(name))
        self._parse_alias_def()
        self._aliases_read_ahead.add(name)
        self._resume_from(back)

    @override
    def _parse_optional_builtin_parametrized_attr(self) -> Attribute | None:
        return self.parse_optional_location() or (
            super()._parse_optional_builtin_parametrized_attr()
        )

    @override
    def _parse_location(self) -> LocationAttr:
        if self.parse_optional_keyword("fused"):
            metadata: Attribute = NoneAttr()
            if self.parse_optional_punctuation("<"):
                metadata = self.parse_attribute()
                self.parse_punctuation(">")
            parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
            return FusedLoc(cast("ArrayAttr[Attribute]", ArrayAttr(parts)), metadata)
        location = super()._parse_location()
        if isinstance(location, FileLineColLoc) and self.parse_optional_keyword("to"):
            line = self.parse_optional_integer(False, False)
            self.parse_punctuation(":")
            end_line = location.line if line is None else IntAttr(line)
            end_column = IntAttr(self.parse_integer(False, False))
            end = RangeEndAttr(end_line, end_column)
            return FusedLoc(cast("ArrayAttr[Attribute]", ArrayAttr([location])), end)
        return location

    # -- names of ops ----------------------------------------------------------

    def op_named(self, name: str) -> type[Operation]:
        """The op of this name; an error as for a text that is this name."""
        self._op_name_positions.append(0)
        return self._get_op_by_name(name)

    @override
    def _get_op_by_name(self, name: str) -> type[Operation]:
        found = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if not name:
            start = self._op_name_positions[-1]
            self.raise_error("empty operation name is invalid", start, start)
        dialect = name.partition(".")[0]
        if dialect in _CLOSED and (found is None or issubclass(found, UnregisteredOp)):
            # As in mlir-opt, whatever the options: such a dialect allows no unknown ops.
            found = None
        if found is None and dialect == "quant":
            start = self._op_name_positions[-1]
            self.raise_error(
                f"unregistered operation '{name}' found in dialect ('quant') that does not "
                "allow unknown operations",
                start,
                start,
            )
        if found is None:
            from difflib import get_close_matches

            start = self._op_name_positions[-1]
            close = get_close_matches(name, [op.name for op in self.ctx.loaded_ops], 1, 0.8)
            hint = f"; did you mean {close[0]}?" if close else ""
            self.raise_error(f"Operation {name} is not registered{hint}", start, start + len(name))
        return found

    # -- resources -----------------------------------------------------------

    @override
    def _parse_dialect_resource_handle(
        self, dialect_name: str, interface: OpAsmDialectInterface
    ) -> str:
        key = self.parse_identifier_or_str_literal(" for resource handle")
        known = self._handles.get((dialect_name, key))
        if known is None:
            known = self._handles[dialect_name, key] = interface.declare_resource(key)
        return known

    @override
    def _parse_external_resources(self) -> None:
        self.parse_comma_separated_list(self.Delimiter.BRACES, self._parse_external_group)

    def _parse_external_group(self) -> None:
        group = self.parse_identifier_or_str_literal()
        self.parse_punctuation(":")
        entries = self.external_resources.setdefault(group, {})

        def entry() -> None:
            key = self.parse_identifier_or_str_literal()
            self.parse_punctuation(":")
            flag = self.parse_optional_boolean()
            entries[key] = self.parse_str_literal() if flag is None else flag

        self.parse_comma_separated_list(self.Delimiter.BRACES, entry)


def _largest_extent(kind: Attribute | None) -> int:
    shape = cast("TensorType[Any]", kind).get_shape() if isinstance(kind, TensorType) else ()
    return max(shape, default=0)


def separate_resources(ctx: Context) -> None:
    """Give the session its own table of `dense_resource` blobs: xDSL has it in the dialect
    object, which all sessions share."""
    if ctx.get_optional_dialect("builtin") is Builtin:
        ctx._loaded_dialects["builtin"] = Dialect(  # pyright: ignore[reportPrivateUsage]
            "builtin",
            list(Builtin.operations),
            list(Builtin.attributes),
            [ResourceTable()],
        )
