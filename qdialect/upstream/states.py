"""What is known of an op while its text is read or written, by the names of its row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qdialect.upstream.table import Row, Value

if TYPE_CHECKING:
    from xdsl.parser import UnresolvedOperand

OPERAND_SEGMENTS = "operandSegmentSizes"
RESULT_SEGMENTS = "resultSegmentSizes"


class Reading:
    """The parts of an op that its text has named so far.

    `types` has those of operands and results; `arguments` those of the entry blocks of regions
    that stand before them.
    """

    def __init__(self, row: Row, parser: Parser) -> None:
        self.row = row
        self.parser = parser
        self.dialect = row.name.partition(".")[0]
        self.operands: dict[str, list[UnresolvedOperand]] = {}
        self.groups: dict[str, list[int]] = {}
        self.types: dict[str, list[Attribute]] = {}
        self.properties: dict[str, Attribute] = {}
        self.attributes: dict[str, Attribute] = {}
        self.regions: dict[str, list[Region]] = {}
        self.successors: dict[str, list[Block]] = {}
        self.arguments: dict[str, list[Parser.Argument]] = {}

    def named_operands(self) -> list[UnresolvedOperand]:
        """All operands, in the order of the row."""
        return [found for value in self.row.operands for found in self.operands.get(value.name, ())]


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


class Parts(NamedTuple):
    """The parts of an op, by the names of its row."""

    operands: dict[str, Sequence[SSAValue]]
    results: dict[str, Sequence[SSAValue]]
    regions: dict[str, Sequence[Region]]
    successors: dict[str, Sequence[Block]]


def parts_of(row: Row, op: Operation) -> Parts:
    """The parts of `op`; VerifyException when it has others than its row says."""
    return Parts(
        _split(op, row.operands, op.operands, OPERAND_SEGMENTS),
        _split(op, row.results, op.results, RESULT_SEGMENTS),
        _split(op, row.regions, op.regions, ""),
        _split(op, row.successors, op.successors, ""),
    )


def _split(
    op: Operation, values: tuple[Value, ...], parts: Sequence[Any], key: str
) -> dict[str, Any]:
    sizes = _sizes(op, values, len(parts), key)
    if sum(sizes) != len(parts) or len(sizes) != len(values) or min(sizes, default=0) < 0:
        raise VerifyException(f"'{op.name}' op has {len(parts)} parts of {sum(sizes)}")
    made: dict[str, Any] = {}
    start = 0
    for value, size in zip(values, sizes, strict=True):
        made[value.name] = parts[start : start + size]
        start += size
    return made


def _sizes(op: Operation, values: tuple[Value, ...], count: int, key: str) -> list[int]:
    many = sum(bool(value.repeat) for value in values)
    rest = count - (len(values) - many)
    if many > 1:
        sizes = op.properties.get(key) or op.attributes.get(key)
        if isinstance(sizes, DenseArrayBase):
            return [int(size) for size in cast("DenseArrayBase[Any]", sizes).get_values()]
        rest, odd = divmod(rest, many)
        if odd:
            raise VerifyException(f"'{op.name}' op has no {key}")
    return [rest if value.repeat else 1 for value in values]


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
