"""What is known of an op while its text is read or written, by the names of its row."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.lexer import Span

from qdialect.plugins.mlir.upstream.attributes import builtin_type
from qdialect.plugins.mlir.upstream.table import Row, Value
from qdialect.plugins.mlir.upstream.types import RULES

if TYPE_CHECKING:
    from xdsl.parser import UnresolvedOperand

OPERAND_SEGMENTS = "operandSegmentSizes"
RESULT_SEGMENTS = "resultSegmentSizes"


class ArgumentTypes(NamedTuple):
    """The types of arguments of a region: those of the values `source`, or `kind` for all."""

    source: str
    kind: str


class Reading:
    """The parts of an op that its text has named so far.

    `types` has those of operands and results.
    """

    def __init__(self, row: Row, parser: Parser) -> None:
        self.row = row
        self.parser = parser
        self.start = parser.pos
        self.dialect = row.name.partition(".")[0]
        self.operands: dict[str, list[UnresolvedOperand]] = {}
        self.types: dict[str, list[Attribute]] = {}
        self.properties: dict[str, Attribute] = {}
        self.attributes: dict[str, Attribute] = {}
        self.regions: dict[str, list[Region]] = {}
        self.successors: dict[str, list[Block]] = {}
        self.payloads: dict[str, tuple[str, dict[str, Attribute]]] = {}
        self.given_arguments: dict[str, list[Parser.Argument]] = {}
        self._bound: dict[str, list[tuple[Sequence[Span], ArgumentTypes]]] = {}

    # -- types that the text leaves out ----------------------------------------

    def types_of(self, name: str) -> list[Attribute]:
        """The types of the operands or results of this name; ParseError if they do not follow
        from what was read."""
        known = self.types.get(name)
        if known is None:
            rule = self.row.types.get(name)
            repeats = {
                value.name: value.repeat for value in (*self.row.operands, *self.row.results)
            }
            absent = repeats.get(name) and not self.operands.get(name)
            if absent and name in {value.name for value in self.row.operands}:
                known = []
            elif rule is not None:
                known = list(self._inferred(name, *rule))
            elif repeats.get(name) and not self.operands.get(name):
                known = []
            else:
                self.parser.raise_error(f"the type of '{name}' is unknown", self.start)
            self.types[name] = known
        return known

    def _inferred(self, name: str, rule: str, source: str) -> Sequence[Attribute]:
        many = {value.name for value in self.row.operands}
        count = len(self.operands.get(name, ())) if name in many else 1
        if rule == "is":
            return [self._type(source)] * count
        if rule == "attribute":
            value = cast("Any", self.properties.get(source))
            kind = getattr(value, "type", None)
            if kind is None and hasattr(value, "get_type"):
                kind = value.get_type()
            if kind is None:
                self.parser.raise_error(f"the type of '{name}' is unknown", self.start)
            return [kind]
        try:
            known = [kind for name in source.split(",") for kind in self.types_of(name)]
            types = RULES[rule](known)
        except (VerifyException, IndexError, AttributeError) as error:
            self.parser.raise_error(f"the type of '{name}' is unknown: {error}", self.start)
        return list(types) * count if rule == "same" and len(types) == 1 else types

    def _type(self, text: str) -> Attribute:
        if not text.startswith("!"):
            return builtin_type(text)
        return Parser(self.parser.ctx, text).parse_type()

    # -- arguments of regions ----------------------------------------------------

    def bind(self, region: str, names: Sequence[Span], types: ArgumentTypes) -> None:
        """Names of arguments of a region that stand before it."""
        self._bound.setdefault(region, []).append((names, types))

    def arguments_of(self, region: str) -> list[Parser.Argument] | None:
        """The arguments of a region that were bound; None if it has its own."""
        if region not in self._bound:
            return self.given_arguments.get(region)
        made: list[Parser.Argument] = []
        for names, (source, kind) in self._bound[region]:
            types = self.types_of(source) if source else [self._type(kind)]
            types = list(types) * len(names) if len(types) == 1 else types
            if len(types) != len(names):
                self.parser.raise_error(
                    f"expected {len(types)} arguments but found {len(names)}", self.start
                )
            made += map(Parser.Argument, names, cast("Any", types))
        return made


class Writing:
    """The parts of an op by the names of its row."""

    def __init__(self, row: Row, op: Operation, printer: Printer) -> None:
        """VerifyException when the op has not the parts that the row says."""
        self.row = row
        self.op = op
        self.printer = printer
        self.dialect = row.name.partition(".")[0]
        self.properties = {**op.attributes, **op.properties}
        self.operands, self.results, self.regions, self.successors = parts_of(row, op)
        self.written = {OPERAND_SEGMENTS, RESULT_SEGMENTS}
        self._bound: dict[str, int] = {}

    def values(self, name: str) -> Sequence[SSAValue]:
        """The operands or results of this name."""
        found = self.operands.get(name)
        return self.results[name] if found is None else found

    def types(self, name: str) -> list[Attribute]:
        """The types of the operands or results of this name."""
        return [value.type for value in self.values(name)]

    def property(self, name: str) -> Attribute | None:
        """A property, which this op need not have."""
        return self.properties.get(name)

    def new_line(self) -> None:
        """Begin a line."""
        self.printer._print_new_line()  # pyright: ignore[reportPrivateUsage]

    def text(self, value: Attribute) -> str:
        """An attribute as the printer writes it."""
        before, self.printer.stream = self.printer.stream, StringIO()
        try:
            self.printer.print_attribute(value)
            return self.printer.stream.getvalue()
        finally:
            self.printer.stream = before

    def print_without_results(self, op: Operation) -> None:
        """Write an op on this line, without the names of its results."""
        before, self.printer.stream = self.printer.stream, StringIO()
        try:
            self.printer.print_op(op)
            text = self.printer.stream.getvalue()
        finally:
            self.printer.stream = before
        self.printer.print_string(text.partition(" = ")[2] if op.results else text)

    # -- arguments of regions ----------------------------------------------------

    def region_arguments(self, name: str) -> Sequence[SSAValue]:
        """The arguments of the first block of a region."""
        block = self.regions[name][0].first_block
        return () if block is None else block.args

    def bind(self, name: str, count: int) -> Sequence[SSAValue]:
        """The next arguments of a region, which are written before it."""
        start = self._bound.get(name, 0)
        self._bound[name] = start + count
        return self.region_arguments(name)[start : start + count]

    def is_bound(self, name: str) -> bool:
        """Whether arguments of a region were written before it."""
        return name in self._bound


class Parts(NamedTuple):
    """The parts of an op, by the names of its row."""

    operands: dict[str, Sequence[SSAValue]]
    results: dict[str, Sequence[SSAValue]]
    regions: dict[str, Sequence[Region]]
    successors: dict[str, Sequence[Block]]


def parts_of(row: Row, op: Operation) -> Parts:
    """The parts of `op`; VerifyException when it has others than its row says."""
    return Parts(
        groups(op, row, "operand"),
        groups(op, row, "result"),
        _named(row.regions, _divided(op.regions, row.regions, "region")),
        _named(row.successors, _divided(op.successors, row.successors, "successor")),
    )


def _named(values: Sequence[Value], parts: Sequence[Any]) -> dict[str, Any]:
    return {value.name: part for value, part in zip(values, parts, strict=True)}


def groups(op: Operation, row: Row, word: str) -> dict[str, Sequence[SSAValue]]:
    """The operands or results (`word`) by name; VerifyException if they do not fit."""
    values, members = (
        (row.operands, op.operands) if word == "operand" else (row.results, op.results)
    )
    members = tuple(members)
    sizes: Sequence[int] | None = None
    if f"{word}-segments" in row.traits:
        key = f"{word}SegmentSizes"
        segments = op.properties.get(key, op.attributes.get(key))
        if segments is None:
            raise VerifyException(f"requires attribute '{key}'")
        sizes = [*cast("Any", segments).get_values()]
    return _named(values, _divided(members, values, word, sizes))


def _divided(
    members: Sequence[Any], values: Sequence[Value], word: str, sizes: Sequence[int] | None = None
) -> list[Any]:
    if sizes is None:
        repeated = sum(bool(value.repeat) for value in values)
        rest = len(members) - (len(values) - repeated)
        sizes = [rest // repeated if value.repeat else 1 for value in values]
    if len(sizes) != len(values) or sum(sizes) != len(members) or min(sizes, default=0) < 0:
        raise VerifyException(f"{len(members)} {word}s cannot be divided into groups of {sizes}")
    ends = [*accumulate(sizes)]
    return [members[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def inherent_as_attribute(kind: type[Operation]) -> frozenset[str]:
    """The properties of the row that a class of xDSL's keeps among its attributes."""
    if not issubclass(kind, IRDLOperation):
        return frozenset()
    known = _AS_ATTRIBUTES.get(kind)
    if known is None:
        definition = kind.get_irdl_definition()
        names = set(definition.attributes)
        for option in definition.options:
            as_property = getattr(option, "as_property", None)
            if as_property is False:
                names.add(cast("Any", option).attribute_name)
        known = _AS_ATTRIBUTES[kind] = frozenset(names)
    return known


_AS_ATTRIBUTES: dict[type[Operation], frozenset[str]] = {}
