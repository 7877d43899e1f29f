"""What ODS demands of the types of an op's operands and results and of its attributes, in
upstream's words.

    'arith.addi' op operand #0 must be signless-integer-like, but got 'f32'
    'arith.addi' op requires the same type for all operands and results
    'tosa.conv2d' op attribute 'pad' failed to satisfy constraint: i64 dense array attribute with
    exactly 4 elements

The tables in `constraints` have the predicates (`tools/upstream_tables/constraints.py` makes them
and says how they are written). A predicate that cannot be decided, of a type nobody knows or of
C++ without a word here, refuses nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    Signedness,
    StringAttr,
    TensorType,
    UnitAttr,
    UnrankedMemRefType,
    UnrankedTensorType,
    UnregisteredAttr,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.utils.exceptions import VerifyException

from qdialect.plugins.mlir.upstream.shapes import (
    RANKED,
    SHAPED,
    element_or_self,
    layout_of,
    remembered,
    shape_of,
    storage_text,
)
from qdialect.plugins.mlir.upstream.states import groups
from qdialect.plugins.mlir.upstream.table import Row
from qdialect.plugins.mlir.upstream.traits import TRAITS

FOLDER = Path(__file__).parent / "constraints"

_Test = Callable[[Attribute], "bool | None"]


class Constraint:
    """What a type or attribute must be; `allows` remembers the types it was asked about."""

    def __init__(self, predicate: str, name: str) -> None:
        self.name = name
        self._predicate = predicate
        self.allows = remembered(self.holds)

    def holds(self, attribute: Attribute) -> bool:
        """Whether a type or attribute may be what upstream demands."""
        return self._test(attribute) is not False

    @cached_property
    def _test(self) -> _Test:
        return _parsed(self._predicate)[0]


class Match(NamedTuple):
    """Values of which something must be equal."""

    kind: str
    values: tuple[str, ...]
    summary: str


class Demands(NamedTuple):
    """What is demanded of one op."""

    operands: tuple[Constraint, ...]
    results: tuple[Constraint, ...]
    attributes: Mapping[str, Constraint]
    traits: tuple[str, ...]
    matches: tuple[Match, ...]


@cache
def demands(name: str) -> Demands | None:
    """What is demanded of the op of this name; None if no table has it."""
    dialect, _, rest = name.partition(".")
    constraints, of_attributes, rows = _table(dialect)
    lines = rows.get(rest)
    if lines is None:
        return None
    fields: dict[str, str] = {}
    matches: list[Match] = []
    for line in lines:
        key, _, text = line.partition(" ")
        if key == "match":
            what, _, summary = text.partition("\t")
            kind, *values = what.split()
            matches.append(Match(kind, tuple(values), summary))
        else:
            fields[key] = text
    operands, results = (
        tuple(constraints[int(number)] for number in fields.get(key, "").split())
        for key in ("operands", "results")
    )
    named = [entry.partition("=") for entry in fields.get("attributes", "").split()]
    attributes = {name: of_attributes[int(number)] for name, _, number in named}
    traits = tuple(fields.get("traits", "").split())
    return Demands(operands, results, attributes, traits, tuple(matches))


@cache
def _table(
    dialect: str,
) -> tuple[Sequence[Constraint], Sequence[Constraint], Mapping[str, list[str]]]:
    path = FOLDER / f"{dialect}.txt"
    if not path.exists():
        return (), (), {}
    head, *parts = path.read_text().rstrip("\n").split("\nop ")
    found: dict[str, list[Constraint]] = {"type": [], "attr": []}
    for line in head.splitlines():
        kind, _, rest = line.split(" ", 2)
        predicate, _, name = rest.partition("\t")
        found[kind].append(Constraint(predicate, name))
    rows = {name: lines for name, *lines in (part.split("\n") for part in parts)}
    return found["type"], found["attr"], rows


Named = Mapping[str, Sequence[SSAValue]]


def check_types(op: Operation, row: Row) -> Named:
    """The operands and results of `op` by the names that its row has for them; VerifyException
    unless their types and the attributes are what upstream demands."""
    found = demands(op.name)
    if found is None:
        return {**groups(op, row, "operand"), **groups(op, row, "result")}
    for name, constraint in found.attributes.items():
        attribute = op.properties.get(name) or op.attributes.get(name)
        if attribute is not None and not constraint.holds(attribute):
            raise VerifyException(
                f"attribute '{name}' failed to satisfy constraint: {constraint.name}"
            )
    named: dict[str, Sequence[SSAValue]] = {}
    for word, constraints, values in (
        ("operand", found.operands, row.operands),
        ("result", found.results, row.results),
    ):
        index, members = 0, groups(op, row, word)
        named.update(members)
        if len(constraints) != len(values):
            continue
        for constraint, value in zip(constraints, values, strict=True):
            for member in members[value.name]:
                if not constraint.allows(member.type):
                    many = "variadic of " if value.repeat.startswith("*") else ""
                    raise VerifyException(
                        f"{word} #{index} must be {many}{constraint.name}, but got '{member.type}'"
                    )
                index += 1
    for match in found.matches:
        _check_match(op, match, named)
    for trait in found.traits:
        TRAITS[trait](op)
    return named


# -- predicates -----------------------------------------------------------------


def _parsed(text: str) -> tuple[_Test, str]:
    """The predicate at the start of a text, and the rest of it."""
    found = re.match(r"[\w.:<>=!-]+", text)
    assert found is not None, text
    word, rest = found.group(), text[found.end() :]
    if not rest.startswith("("):
        return _leaf(word), rest
    parts: list[_Test] = []
    rest = rest[1:]
    while True:
        part, rest = _parsed(rest)
        parts.append(part)
        separator, rest = rest[0], rest[1:]
        if separator == ")":
            return _COMBINED[word](parts), rest


def _all(parts: list[_Test]) -> _Test:
    def test(kind: Attribute) -> bool | None:
        sure: bool | None = True
        for part in parts:
            holds = part(kind)
            if holds is False:
                return False
            sure = None if holds is None else sure
        return sure

    return test


def _any(parts: list[_Test]) -> _Test:
    def test(kind: Attribute) -> bool | None:
        sure: bool | None = False
        for part in parts:
            holds = part(kind)
            if holds:
                return True
            sure = None if holds is None else sure
        return sure

    return test


def _not(parts: list[_Test]) -> _Test:
    def test(kind: Attribute) -> bool | None:
        holds = parts[0](kind)
        return None if holds is None else not holds

    return test


def _element(parts: list[_Test]) -> _Test:
    def test(kind: Attribute) -> bool | None:
        if isinstance(kind, (ComplexType, *SHAPED)):
            return parts[0](cast("Any", kind).element_type)
        return False

    return test


def _typed(parts: list[_Test]) -> _Test:
    return lambda attribute: parts[0](cast("Any", attribute).get_type())


_COMBINED: Mapping[str, Callable[[list[_Test]], _Test]] = {
    "all": _all,
    "any": _any,
    "not": _not,
    "element": _element,
    "typed": _typed,
}


def _leaf(word: str) -> _Test:
    plain = _PLAIN.get(word)
    if plain is not None:
        return plain
    key, _, argument = word.partition(":")
    if key == "named":
        return lambda kind: _name(kind) == argument
    if key == "dense-array":
        return lambda attribute: (
            isinstance(attribute, DenseArrayBase)
            and storage_text(cast("DenseArrayBase[Any]", attribute).elt_type) == argument
        )
    number = int(argument)
    if key in ("signless", "unsigned"):
        return lambda kind: _is_integer(kind, Signedness[key.upper()], number)
    if key == "storage-width":
        return lambda kind: _storage_width(kind) == number
    subject, comparison = key.rstrip("!=>"), key.lstrip("abcdefghijklmnopqrstuvwxyz-")
    measure, holds = _MEASURES[subject], _COMPARISONS[comparison]

    def test(kind: Attribute) -> bool | None:
        numbers = measure(kind)
        return numbers is not None and all(holds(n, number) for n in numbers)

    return test


_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
_MEASURES: Mapping[str, Callable[[Any], Sequence[int] | None]] = {
    "extents": lambda kind: kind.get_shape() if isinstance(kind, RANKED) else None,
    "rank": lambda kind: [len(kind.get_shape())] if isinstance(kind, RANKED) else None,
    "shape-rank": lambda kind: [kind.rank.data],
    "size": lambda attribute: [len(attribute)],
    "value": lambda attribute: [attribute.value.data],
}
"""The numbers of a type or attribute that predicates compare."""


def _is_integer(kind: Attribute, signedness: Signedness, width: int | None = None) -> bool | None:
    if isinstance(kind, UnregisteredAttr):
        return None
    if not isinstance(kind, IntegerType):
        return False
    integer = cast("IntegerType", kind)
    if integer.signedness.data is not signedness:
        return False
    return width is None or integer.width.data == width


def _storage_width(kind: Attribute) -> int:
    return cast("Any", kind).data.storage.width if kind.name.startswith("quant.") else 0


def _axis_fits(kind: Attribute) -> bool:
    """Whether a tensor has as many scales as its quantized dimension has places."""
    element = element_or_self(kind)
    if layout_of(element) != "axis":
        return True
    params, shape = cast("Any", element).data, shape_of(kind)
    return shape is None or (params.axis < len(shape) and shape[params.axis] in (-1, params.count))


def _name(kind: Attribute) -> str:
    return kind.attr_name.data if isinstance(kind, UnregisteredAttr) else kind.name


def _is(*classes: Any) -> _Test:
    return lambda kind: None if isinstance(kind, UnregisteredAttr) else isinstance(kind, classes)


_PLAIN: Mapping[str, _Test] = {
    "true": lambda kind: True,
    "unknown": lambda kind: None,
    "float": _is(AnyFloat),
    "index": _is(IndexType),
    "integer": _is(IntegerType),
    "complex": _is(ComplexType),
    "function": _is(FunctionType),
    "ranked-tensor": _is(TensorType),
    "unranked-tensor": _is(UnrankedTensorType),
    "tensor": _is(TensorType, UnrankedTensorType),
    "vector": _is(VectorType),
    "memref": _is(MemRefType),
    "unranked-memref": _is(UnrankedMemRefType),
    "any-memref": _is(MemRefType, UnrankedMemRefType),
    "shaped": _is(*SHAPED),
    "quantized": lambda kind: _name(kind).startswith("quant."),
    "per-tensor": lambda kind: layout_of(kind) == "tensor",
    "per-axis": lambda kind: layout_of(kind) == "axis",
    "unsigned-storage": lambda kind: not cast("Any", kind).data.storage.signed,
    "axis-fits": _axis_fits,
    "array-attr": _is(ArrayAttr),
    "float-attr": _is(FloatAttr),
    "integer-attr": _is(IntegerAttr),
    "integer-elements-attr": lambda attribute: (
        isinstance(attribute, DenseIntOrFPElementsAttr)
        and not isinstance(attribute.get_element_type(), AnyFloat | ComplexType)
    ),
    "string-attr": _is(StringAttr),
    "type-attr": _is(TypeAttribute),
    "unit-attr": _is(UnitAttr),
    "signless": lambda kind: _is_integer(kind, Signedness.SIGNLESS),
    "unsigned": lambda kind: _is_integer(kind, Signedness.UNSIGNED),
    "signed": lambda kind: _is_integer(kind, Signedness.SIGNED),
    "value-semantics": _is(TensorType, UnrankedTensorType, VectorType),
    "has-rank": _is(*RANKED),
    "static-shape": lambda kind: isinstance(kind, RANKED) and all(n >= 0 for n in kind.get_shape()),
}


# -- what types have in common ----------------------------------------------------


def _check_match(op: Operation, match: Match, named: Named) -> None:
    kinds: list[Attribute] = []
    for name in match.values:
        if name in named:
            kinds += [value.type for value in named[name]]
        else:
            attribute = op.properties.get(name, op.attributes.get(name))
            kind = getattr(attribute, "type", None)
            if not isinstance(kind, Attribute):
                return
            kinds.append(kind)
    measured = [found for kind in kinds if (found := _MATCHED[match.kind](kind)) is not None]
    if len(set(measured)) > 1:
        raise VerifyException(f"failed to verify that {match.summary}")


_MATCHED: Mapping[str, Callable[[Attribute], object]] = {
    "type": lambda kind: kind,
    "element-type": element_or_self,
    "rank": lambda kind: None if (shape := shape_of(kind)) is None else len(shape),
    "shape": lambda kind: shape_of(kind) or (),
}
"""What must be equal."""
