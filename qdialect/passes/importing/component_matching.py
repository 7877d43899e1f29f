"""Find the pieces of a composite op in a graph: its declaration is the pattern.

A probe is the op on block arguments, which stand for any value. Its pieces are built in a block
aside and compared with the ops above a value of the graph. Addition and multiplication commute; a
product is the same in any order of its factors, with x^n for x * x ... and x / c for x * (1 / c).
Pieces may be rounded on the way, as quantizers write them (fake quantization): the result of a
quantize and a dequantize stands for their operand.

    %0 = nn.sigmoid %x : (!f) -> !f
    %1 = quant.qcast %0 : !f to !q
    %2 = quant.dcast %1 : !q to !f
    %3 = nn.mul %2, %x : (!f, !f) -> !f        matches the pieces of nn.swish
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import permutations
from typing import Any

from numpy.typing import NDArray
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.traits import ConstantLike

from qdialect.analysis.codes import constant_values
from qdialect.behaviors.shapes import shape_of
from qdialect.context import QContext
from qdialect.ops import AddOp, DivOp, MulOp, NNOp, SliceOp, SqueezeOp, constant_of, keys_of
from qdialect.ops.components import Build, Pieces, built
from qdialect.ops.functions import PowOp
from qdialect.ops.shapes import normalize_axes
from qdialect.passes.constant_scalars import scalar_of
from qdialect.passes.folding.constant_evaluation import dequantize
from qdialect.quant import DCastOp, QCastOp, RescaleOp, UniformType, quant_element, with_element
from qdialect.quant.elements import expressed_type
from qdialect.rewrite import Refusal

#: constants in files are rounded to f32, and differently by each exporter
_CLOSE = 2.0**-22
_NEAR = 3
"""So many pieces at least, and half of them, are there in what is nearly a composite."""

_Leaf = SSAValue | float


def as_float(kind: Attribute) -> Attribute:
    """The type of what values of a type are worth."""
    element = quant_element(kind)
    return kind if element is None else with_element(kind, expressed_type(element.qparams))


def unrounded(value: SSAValue) -> SSAValue:
    """What a value was before it was quantized and dequantized, or rescaled, if it was."""
    while True:
        op = value.owner
        if isinstance(op, DCastOp) and isinstance(op.input.owner, QCastOp):
            value = op.input.owner.input
        elif isinstance(op, RescaleOp):
            value = op.operands[0]
        else:
            return value


def rounded(value: SSAValue) -> SSAValue:
    """What a value that is only quantized and dequantized, or rescaled, is then."""
    while (use := value.first_use) is not None and value.has_one_use():
        if not isinstance(use.operation, QCastOp | DCastOp | RescaleOp):
            break
        value = use.operation.results[0]
    return value


def number_of(value: SSAValue, session: QContext) -> Fraction | None:
    """The one real number that a constant, or one behind a dequantize, holds everywhere."""
    return scalar_of(_stored(value), session)


def numbers_of(value: SSAValue, session: QContext) -> NDArray[Any] | None:
    """The floats that a constant, or one behind a dequantize, is worth."""
    value = _stored(value)
    array = constant_values(value, session)
    if array is None or quant_element(value.type) is None:
        return array
    found = dequantize(array, value)
    return None if isinstance(found, Refusal) else found


def _stored(value: SSAValue) -> SSAValue:
    """The codes of a dequantized constant."""
    owner = value.owner
    return owner.input if isinstance(owner, DCastOp) and constant_of(owner.input) else value


@dataclass
class Match:
    """A composite in a graph: its operands, and the value of each value of the pattern."""

    operands: list[SSAValue]
    values: dict[SSAValue, SSAValue]
    pieces: Mapping[str, Sequence[SSAValue]]
    results: Sequence[SSAValue]
    inexact: bool
    #: whether nothing else uses what is computed on the way
    is_closed: bool
    #: what the pieces are rounded to, by role
    types: Mapping[str, UniformType]
    #: whether any value on the way is rounded
    is_rounded: bool

    def piece(self, role: str) -> SSAValue | None:
        """The value of a piece, as it is stored, if it is one value in the graph."""
        value = self.values.get(self.pieces[role][0]) if role in self.pieces else None
        if value is None or quant_element(value.type) is None:
            return value
        return rounded(value)

    def others(self) -> list[Operation]:
        """The ops that compute what is neither a result nor of a role, constants left out."""
        named = {self.values.get(v) for group in self.pieces.values() for v in group}
        named.update(self.results)
        return [
            value.owner
            for pattern, value in self.values.items()
            if not isinstance(pattern, BlockArgument)
            and value not in named
            and isinstance(value.owner, Operation)
            and not isinstance(value.owner, DCastOp | RescaleOp)
            and not _is_constant(value.owner)
        ]


@dataclass
class Miss:
    """How far a graph has the pieces of a composite: how many of them, and what is not so."""

    matched: int = 0
    reason: str = ""


def find(probe: Operation, block: Block, result: SSAValue, session: QContext) -> Match | Miss:
    """`result` as what `probe` (in `block`, on its arguments) computes; else what is not so, with
    no reason where less than half of its pieces are there."""
    components, best = session.components[probe.name], Miss()
    # Its own program, and those that files have.
    for build in (components.build, *components.also):
        found = _find(build, probe, block, result, session)
        if isinstance(found, Match):
            return found
        best = max(best, found, key=lambda miss: miss.matched)
    return best


def _find(
    build: Build, probe: Operation, block: Block, result: SSAValue, session: QContext
) -> Match | Miss:
    pieces = Pieces(probe, session.blobs, {}, session.target.most_pieces)
    before = set(block.ops)
    final = built(build, probe, pieces)
    if final is None:
        return Miss()
    start = _Matching(session)
    matched = start.run(final[0], result)
    if matched is None or not matched.bound.keys() >= set(block.args):
        count = sum(not _is_constant(op) for op in block.ops if op not in before)
        return start.miss if start.miss.matched >= max(_NEAR, count / 2) else Miss()
    known = [matched.bound.get(operand, operand) for operand in probe.operands]
    inexact = matched.inexact or pieces.rounds_constants
    return match_of(known, matched.bound, pieces.values, (result,), inexact)


def match_of(
    operands: list[SSAValue],
    bound: dict[SSAValue, SSAValue],
    pieces: Mapping[str, Sequence[SSAValue]],
    results: Sequence[SSAValue],
    inexact: bool = False,
) -> Match:
    """What is known of a composite whose pieces, by role, and other values are `bound` to those of
    the graph, its `results` among them."""
    casts = _casts(bound, results)
    closed = _is_closed(bound, results, casts)
    found = {
        role: [bound[pattern] for pattern in group if pattern in bound]
        for role, group in pieces.items()
    }
    types: dict[str, UniformType] = {}
    for role, values in found.items():
        stored = [[op.results[0] for op in casts[v]] if v in casts else [v] for v in values]
        elements = [quant_element(value.type) for group in stored for value in group]
        element = elements[0] if len(elements) == len(values) and elements else None
        if element is not None and elements.count(element) == len(elements):
            types[role] = element
    is_rounded = bool(casts) or any(quant_element(value.type) for value in results)
    return Match(operands, bound, pieces, results, inexact, closed, types, is_rounded)


def _casts(
    bound: Mapping[SSAValue, SSAValue], results: Sequence[SSAValue]
) -> Mapping[SSAValue, Sequence[Operation]]:
    """What rounds the pieces on the way, by value."""
    found: dict[SSAValue, list[Operation]] = {}
    for pattern, value in bound.items():
        users = dict.fromkeys(use.operation for use in value.uses)
        quantizes = [user for user in users if isinstance(user, QCastOp | RescaleOp)]
        if quantizes and not isinstance(pattern, BlockArgument) and value not in results:
            found[value] = [*quantizes]
    return found


def _is_closed(
    bound: Mapping[SSAValue, SSAValue],
    results: Sequence[SSAValue],
    casts: Mapping[SSAValue, Sequence[Operation]],
) -> bool:
    """Whether nothing else uses what the pieces compute on the way; slices of operands may be
    used."""
    inner = {
        value.owner
        for pattern, value in bound.items()
        if not isinstance(pattern, BlockArgument) and isinstance(value.owner, Operation)
    }
    for quantize in (quantize for group in casts.values() for quantize in group):
        inner.add(quantize)
        users = [use.operation for use in quantize.results[0].uses]
        inner.update(user for user in users if isinstance(user, DCastOp))
    arguments = {v for pattern, v in bound.items() if isinstance(pattern, BlockArgument)}
    for op in inner:
        is_end = any(result in results for result in op.results)
        if is_end or _is_slice(op, arguments) or _is_constant(op):
            continue
        if any(use.operation not in inner for value in op.results for use in value.uses):
            return False
    return True


def _is_slice(op: Operation, arguments: Container[SSAValue]) -> bool:
    """Whether an op takes one index of an operand of the composite."""
    if isinstance(op, SqueezeOp) and isinstance(op.operands[0].owner, SliceOp):
        op = op.operands[0].owner
    return isinstance(op, SliceOp) and op.operands[0] in arguments


@dataclass
class _Matching:
    session: QContext
    bound: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    inexact: bool = False
    #: how many pieces are above, of the one that is compared
    depth: int = 0
    miss: Miss = field(default_factory=Miss)

    def run(self, pattern: SSAValue, value: SSAValue) -> _Matching | None:
        """Bound further so that `value` is what `pattern` says, or None."""
        found = self._run(pattern, value)
        if found is None:
            matched = self.depth + sum(isinstance(v.owner, Operation) for v in self.bound)
            if matched > self.miss.matched:
                self.miss.matched, self.miss.reason = matched, _difference(pattern, value)
        return found

    def _run(self, pattern: SSAValue, value: SSAValue) -> _Matching | None:
        if isinstance(pattern, BlockArgument):
            if pattern in self.bound:
                return self if self.bound[pattern] is value else None
            same = pattern.type == as_float(value.type)
            return replace(self, bound={**self.bound, pattern: value}) if same else None
        value = unrounded(value)
        if pattern in self.bound:
            return self if self.bound[pattern] is value else None
        op = pattern.owner
        assert isinstance(op, Operation)
        if _is_constant(op):
            if (found := self._constant(pattern, _number(value, self.session))) is not None:
                return found
            return self if self._is_array(pattern, value) else None
        if isinstance(op, MulOp):
            return self._product(pattern, value)
        other = value.owner
        if not isinstance(other, NNOp):
            return None
        same = _is_same(op, other)
        if same is None:
            return None
        orders = [tuple(other.operands)]
        if isinstance(op, AddOp):
            orders.append((other.operands[1], other.operands[0]))
        for operands in orders:
            found: _Matching | None = replace(self, depth=self.depth + 1)
            for inner, actual in zip(op.operands, operands, strict=True):
                found = found and found.run(inner, actual)
            if found is not None:
                bound, inexact = {**found.bound, pattern: value}, found.inexact or not same
                return replace(self, bound=bound, inexact=inexact)
        return None

    def _constant(self, pattern: SSAValue, number: float | None) -> _Matching | None:
        expected = _number(pattern, self.session)
        if expected is None or number is None or not _is_close(number, expected):
            return None
        return replace(self, inexact=self.inexact or number != expected)

    def _is_array(self, pattern: SSAValue, value: SSAValue) -> bool:
        """Whether a constant holds the numbers of the pattern's, of which it may be a row."""
        one, other = numbers_of(pattern, self.session), numbers_of(value, self.session)
        if one is None or other is None or one.size != other.size:
            return False
        rank = max(one.ndim, other.ndim)
        shapes = {(*(1,) * (rank - array.ndim), *array.shape) for array in (one, other)}
        return len(shapes) == 1 and bool((one.ravel() == other.ravel()).all())

    def _product(self, pattern: SSAValue, value: SSAValue) -> _Matching | None:
        factors = list(_factors(pattern))
        for leaves, products in _splits(value, len(factors), self.session):
            for order in permutations(range(len(factors))):
                found: _Matching | None = replace(self, depth=self.depth + 1)
                for index, leaf in zip(order, leaves, strict=True):
                    if found is None:
                        break
                    found = found._factor(factors[index], leaf)
                if found is not None:
                    bound = _bound_products(pattern, products, order)
                    bound |= {**found.bound, pattern: value}
                    return replace(self, bound=bound, inexact=found.inexact)
        return None

    def _factor(self, pattern: SSAValue, leaf: _Leaf) -> _Matching | None:
        if isinstance(leaf, SSAValue):
            return self.run(pattern, leaf)
        found = self._constant(pattern, leaf) if _is_constant(pattern.owner) else None
        return found and replace(found, inexact=True)


def _is_constant(op: Operation | Block) -> bool:
    return isinstance(op, Operation) and op.has_trait(ConstantLike, value_if_unregistered=False)


def _difference(pattern: SSAValue, value: SSAValue) -> str:
    """Why a value is not that of the pattern, for people."""
    if isinstance(pattern, BlockArgument):
        return f"{value.type} stands where it takes {pattern.type}, or the same value as elsewhere"
    op, other = unrounded(value).owner, pattern.owner
    assert isinstance(other, Operation)
    found = f"'{op.name}'" if isinstance(op, Operation) else "an argument"
    at = "".join(f" at '{key}'" for key in keys_of(op)) if isinstance(op, Operation) else ""
    expected = "a number, or another" if _is_constant(other) else f"'{other.name}'"
    return f"{found}{at} stands where its pieces have {expected}"


def _number(value: SSAValue, session: QContext) -> float | None:
    number = number_of(value, session)
    return None if number is None else float(number)


def _factors(value: SSAValue) -> Iterator[SSAValue]:
    if isinstance(value.owner, MulOp):
        for operand in value.owner.operands:
            yield from _factors(operand)
    else:
        yield value


def _products(value: SSAValue, first: int = 0) -> Iterator[tuple[SSAValue, range]]:
    """The products that a product is made of, itself last, and which factors each has."""
    if isinstance(value.owner, MulOp):
        start = first
        for operand in value.owner.operands:
            yield from _products(operand, start)
            start += len(list(_factors(operand)))
        yield value, range(first, start)


def _bound_products(
    pattern: SSAValue, products: Sequence[tuple[SSAValue, range]], order: Sequence[int]
) -> dict[SSAValue, SSAValue]:
    """The products of a pattern as those of a value that have the same factors, where
    `order` tells which factor of the pattern each of the value's is. Other products on the
    way are pieces too, of no role."""
    of_factors = {frozenset(order[n] for n in factors): value for value, factors in products}
    bound: dict[SSAValue, SSAValue] = {}
    for inner, factors in _products(pattern):
        if (value := of_factors.pop(frozenset(factors), None)) is not None:
            bound[inner] = value
    return bound | {value: value for value in of_factors.values()}


def _splits(
    value: SSAValue, count: int, session: QContext, first: int = 0
) -> Iterator[tuple[Sequence[_Leaf], Sequence[tuple[SSAValue, range]]]]:
    """Ways to read a value as a product of `count` factors, and the products on the way
    with the factors, counted from `first`, of each."""
    if count == 1:
        yield (value,), ()
        return
    value = unrounded(value)
    op = value.owner
    whole = (value, range(first, first + count))
    if isinstance(op, PowOp) and op.values["exponent"] == count:
        yield (op.operands[0],) * count, (whole,)
    elif isinstance(op, DivOp):
        divisor = _number(op.operands[1], session)
        if divisor:
            for leaves, products in _splits(op.operands[0], count - 1, session, first):
                yield (*leaves, 1.0 / divisor), (*products, whole)
    elif isinstance(op, MulOp):
        for left in range(1, count):
            for leaves, products in _splits(op.operands[0], left, session, first):
                others = _splits(op.operands[1], count - left, session, first + left)
                for more, last in others:
                    yield (*leaves, *more), (*products, *last, whole)


def _is_same(pattern: Operation, op: NNOp) -> bool | None:
    """Whether `op` is the same function, dimensions counted from either end: False where
    numbers differ by what files round off, None where it is another one."""
    if pattern.name != op.name or len(pattern.operands) != len(op.operands):
        return None
    assert isinstance(pattern, NNOp)
    expected, actual = _properties(pattern), _properties(op)
    if expected == actual:
        return True
    close = expected.keys() == actual.keys() and all(
        a == actual[name] or _is_close(actual[name], a) for name, a in expected.items()
    )
    return False if close else None


def _is_close(actual: Any, expected: Any) -> bool:
    both = isinstance(actual, float) and isinstance(expected, float)
    return both and abs(actual - expected) <= _CLOSE * abs(expected)


def _properties(op: NNOp) -> dict[str, Any]:
    values = dict(op.values)
    if "axes" in values:
        values["axes"] = normalize_axes(values["axes"], len(shape_of(op.operands[0])))
    return values
