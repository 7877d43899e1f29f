"""What ODS demands of the types of an op's operands and results, in upstream's words.

    'arith.addi' op operand #0 must be signless-integer-like, but got 'f32'
    'arith.addi' op requires the same type for all operands and results

The tables in `constraints` have the predicates (`tools/upstream_tables/constraints.py` makes them
and says how they are written). A predicate that cannot be decided, of a type nobody knows or of
C++ without a word here, refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    FunctionType,
    IndexType,
    IntegerType,
    MemRefType,
    Signedness,
    TensorType,
    UnrankedMemRefType,
    UnrankedTensorType,
    UnregisteredAttr,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.upstream.table import Row, Value

FOLDER = Path(__file__).parent / "constraints"
MOST_TYPES = 1 << 14
"""The memory of types is emptied when it has so many."""

_Test = Callable[[Attribute], "bool | None"]
_SHAPED = (TensorType, VectorType, MemRefType, UnrankedTensorType, UnrankedMemRefType)
_RANKED = (TensorType, VectorType, MemRefType)


class Constraint:
    """What a type must be; it remembers the types it was asked about."""

    def __init__(self, predicate: str, name: str) -> None:
        self.name = name
        self._test, rest = _parsed(predicate)
        assert not rest, predicate
        #: by `id` of the type, which the entry refers to so that the `id` stays unique
        self._known: dict[int, tuple[Attribute, bool]] = {}

    def allows(self, kind: Attribute) -> bool:
        """Whether a type may be what upstream demands."""
        known = self._known.get(id(kind))
        if known is None:
            if len(self._known) >= MOST_TYPES:
                self._known.clear()
            known = self._known[id(kind)] = kind, self._test(kind) is not False
        return known[1]


class Match(NamedTuple):
    """Values of which something must be equal."""

    kind: str
    values: tuple[str, ...]
    summary: str


class Demands(NamedTuple):
    """What is demanded of one op."""

    operands: tuple[Constraint, ...]
    results: tuple[Constraint, ...]
    traits: tuple[str, ...]
    matches: tuple[Match, ...]


@cache
def demands(name: str) -> Demands | None:
    """What is demanded of the op of this name; None if no table has it."""
    dialect, _, rest = name.partition(".")
    constraints, rows = _table(dialect)
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
    return Demands(operands, results, tuple(fields.get("traits", "").split()), tuple(matches))


@cache
def _table(dialect: str) -> tuple[Sequence[Constraint], Mapping[str, list[str]]]:
    path = FOLDER / f"{dialect}.txt"
    if not path.exists():
        return (), {}
    head, *parts = path.read_text().rstrip("\n").split("\nop ")
    constraints: list[Constraint] = []
    for line in head.splitlines():
        predicate, _, name = line.split(" ", 2)[2].partition("\t")
        constraints.append(Constraint(predicate, name))
    rows = {name: lines for name, *lines in (part.split("\n") for part in parts)}
    return constraints, rows


def check_types(op: Operation, row: Row) -> None:
    """VerifyException unless the types in `op` are what upstream demands."""
    found = demands(op.name)
    if found is None:
        return
    operands = _groups(op, row.operands, op.operands, "operandSegmentSizes")
    results = _groups(op, row.results, op.results, "resultSegmentSizes")
    for word, groups, constraints, values in (
        ("operand", operands, found.operands, row.operands),
        ("result", results, found.results, row.results),
    ):
        index = 0
        if groups is None or len(constraints) != len(values):
            continue
        for group, constraint, value in zip(groups, constraints, values, strict=True):
            for member in group:
                if not constraint.allows(member.type):
                    many = "variadic of " if value.repeat.startswith("*") else ""
                    raise VerifyException(
                        f"{word} #{index} must be {many}{constraint.name}, but got '{member.type}'"
                    )
                index += 1
    if operands is not None and results is not None:
        named = dict(zip([v.name for v in row.operands], operands, strict=False))
        named |= dict(zip([v.name for v in row.results], results, strict=False))
        for match in found.matches:
            _check_match(op, match, named)
    for trait in found.traits:
        _TRAITS[trait](op)


def _groups(
    op: Operation, values: Sequence[Value], members: Sequence[SSAValue], key: str
) -> list[Sequence[SSAValue]] | None:
    """The operands or results by value of the row; None where that cannot be told."""
    repeated = [value for value in values if value.repeat]
    sizes: list[int]
    if len(repeated) <= 1:
        rest = len(members) - (len(values) - len(repeated))
        if rest < 0 or (not repeated and rest):
            return None
        sizes = [rest if value.repeat else 1 for value in values]
    else:
        segments = op.properties.get(key, op.attributes.get(key))
        if segments is None:
            return None
        sizes = list(cast("Any", segments).get_values())
        if len(sizes) != len(values) or sum(sizes) != len(members):
            return None
    found: list[Sequence[SSAValue]] = []
    first = 0
    for size in sizes:
        found.append(members[first : first + size])
        first += size
    return found


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
        if isinstance(kind, (ComplexType, *_SHAPED)):
            return parts[0](cast("Any", kind).element_type)
        return False

    return test


_COMBINED: Mapping[str, Callable[[list[_Test]], _Test]] = {
    "all": _all,
    "any": _any,
    "not": _not,
    "element": _element,
}


def _leaf(word: str) -> _Test:
    plain = _PLAIN.get(word)
    if plain is not None:
        return plain
    key, _, argument = word.partition(":")
    if key == "named":
        return lambda kind: _name(kind) == argument
    number = int(argument)
    if key == "signless":
        return lambda kind: _is_integer(kind, Signedness.SIGNLESS, number)
    if key == "storage-width":
        return lambda kind: _storage_width(kind) == number
    if key in ("extents!=", "extents=="):
        equal = key.endswith("==")
        return lambda kind: (
            isinstance(kind, _RANKED) and all((n == number) == equal for n in kind.get_shape())
        )
    return _rank(key.removeprefix("rank"), number)


def _rank(comparison: str, number: int) -> _Test:
    compare: Mapping[str, Callable[[int], bool]] = {
        "==": lambda rank: rank == number,
        ">=": lambda rank: rank >= number,
        ">": lambda rank: rank > number,
    }
    holds = compare[comparison]
    return lambda kind: isinstance(kind, _RANKED) and holds(len(kind.get_shape()))


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


def _name(kind: Attribute) -> str:
    return kind.attr_name.data if isinstance(kind, UnregisteredAttr) else kind.name


def _is(*classes: Any) -> _Test:
    return lambda kind: None if isinstance(kind, UnregisteredAttr) else isinstance(kind, classes)


def _is_scalable(kind: Attribute) -> bool:
    return isinstance(kind, VectorType) and any(
        bool(flag.value.data) for flag in cast("Any", kind).scalable_dims
    )


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
    "fixed-vector": lambda kind: (
        isinstance(kind, VectorType) and not _is_scalable(cast("Attribute", kind))
    ),
    "scalable-vector": _is_scalable,
    "memref": _is(MemRefType),
    "unranked-memref": _is(UnrankedMemRefType),
    "any-memref": _is(MemRefType, UnrankedMemRefType),
    "shaped": _is(*_SHAPED),
    "quantized": lambda kind: _name(kind).startswith("quant."),
    "signless": lambda kind: _is_integer(kind, Signedness.SIGNLESS),
    "unsigned": lambda kind: _is_integer(kind, Signedness.UNSIGNED),
    "signed": lambda kind: _is_integer(kind, Signedness.SIGNED),
    "value-semantics": _is(TensorType, UnrankedTensorType, VectorType),
    "has-rank": _is(*_RANKED),
    "static-shape": lambda kind: (
        isinstance(kind, _RANKED) and all(n >= 0 for n in kind.get_shape())
    ),
}


# -- what types have in common ----------------------------------------------------


def _shape(kind: Attribute) -> tuple[int, ...] | None:
    """The shape of a type that has one; () of a scalar, None of a type without a rank."""
    if isinstance(kind, UnrankedTensorType | UnrankedMemRefType):
        return None
    return tuple(kind.get_shape()) if isinstance(kind, _RANKED) else ()


def _element_type(kind: Attribute) -> Attribute:
    return cast("Any", kind).element_type if isinstance(kind, _SHAPED) else kind


def _are_compatible(kinds: Sequence[Attribute]) -> bool:
    """Whether shapes are equal where both are known."""
    shaped = [isinstance(kind, _SHAPED) for kind in kinds]
    if any(shaped) != all(shaped):
        return False
    shapes = [shape for shape in map(_shape, kinds) if shape is not None]
    if len({len(shape) for shape in shapes}) > 1:
        return False
    return all(len({n for n in extents if n >= 0}) <= 1 for extents in zip(*shapes, strict=True))


def _have_one_type(kinds: Sequence[Attribute]) -> bool:
    first = kinds[0]
    if all(kind is first or kind == first for kind in kinds):
        return True
    return len({_element_type(kind) for kind in kinds}) == 1 and _are_compatible(kinds)


def _check_match(op: Operation, match: Match, named: Mapping[str, Sequence[SSAValue]]) -> None:
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
    if match.kind == "type":
        holds = len(set(kinds)) <= 1
    elif match.kind == "element-type":
        holds = len(set(map(_element_type, kinds))) <= 1
    elif match.kind == "rank":
        ranks = {len(shape) for kind in kinds if (shape := _shape(kind)) is not None}
        holds = len(ranks) <= 1
    else:
        holds = len({_shape(kind) for kind in kinds}) <= 1
    if not holds:
        raise VerifyException(f"failed to verify that {match.summary}")


def _types_of(op: Operation, *, results: bool) -> list[Attribute]:
    return [*op.operand_types, *(op.result_types if results else ())]


def _one_type(op: Operation) -> None:
    kinds = _types_of(op, results=True)
    if kinds and not _have_one_type(kinds):
        raise VerifyException("requires the same type for all operands and results")


def _one_shape(op: Operation) -> None:
    if not _are_compatible(_types_of(op, results=True)):
        raise VerifyException("requires the same shape for all operands and results")


def _one_operand_shape(op: Operation) -> None:
    if not _are_compatible(_types_of(op, results=False)):
        raise VerifyException("requires the same shape for all operands")


def _one_element_type(op: Operation) -> None:
    if len(set(map(_element_type, _types_of(op, results=True)))) > 1:
        raise VerifyException("requires the same element type for all operands and results")


def _one_operand_element_type(op: Operation) -> None:
    if len(set(map(_element_type, _types_of(op, results=False)))) > 1:
        raise VerifyException("requires the same element type for all operands")


def _one_operand_type(op: Operation) -> None:
    if len(set(_types_of(op, results=False))) > 1:
        raise VerifyException("requires all operands to have the same type")


def _one_tensor_shape(op: Operation) -> None:
    if not _are_compatible(_types_of(op, results=True)):
        raise VerifyException(
            "failed to verify that input and output have the same tensor dimensions"
        )


_TRAITS: Mapping[str, Callable[[Operation], None]] = {
    "same-input-output-dimensions": _one_tensor_shape,
    "same-operands-and-result-type": _one_type,
    "same-operands-and-result-shape": _one_shape,
    "same-operands-and-result-element-type": _one_element_type,
    "same-operands-element-type": _one_operand_element_type,
    "same-operands-shape": _one_operand_shape,
    "same-type-operands": _one_operand_type,
}
