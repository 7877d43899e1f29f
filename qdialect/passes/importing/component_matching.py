"""Find the pieces of a composite op in a graph.

A form of the op (`composite_forms`) is compared with the ops above a value. That gives the operands
and properties of the op. Then the pieces of this op are built and compared once more, so that all
numbers, types and attributes agree. Addition and multiplication commute. A product may have its
factors in any order, with x^n for x * x ... and x / c for x * (1 / c). A constant operand may be
unsqueezed or transposed already. Pieces may be quantized and dequantized in between, as quantizers
write them, or rescaled.

    %0 = nn.sigmoid %x : (!f) -> !f
    %1 = quant.qcast %0 : !f to !q
    %2 = quant.dcast %1 : !q to !f
    %3 = nn.mul %2, %x : (!f, !f) -> !f        matches the pieces of nn.swish
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.qparams import Storage
from qdialect.analysis.codes import constant_values
from qdialect.ir.behaviors.shapes import shape_of, tensor_type
from qdialect.ir.context import QContext
from qdialect.ir.ops import (
    AddOp,
    ConcatOp,
    ConstantOp,
    DivOp,
    FullyConnectedOp,
    MulOp,
    NNOp,
    ReshapeOp,
    SliceOp,
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
    constant_array,
    constant_of,
    keys_of,
    make_constant,
)
from qdialect.ir.ops.base import ranked
from qdialect.ir.ops.components import Build, NoPiecesError, Pieces, built
from qdialect.ir.ops.functions import PowOp
from qdialect.ir.ops.keys import KEY
from qdialect.ir.ops.shapes import normalize_axes
from qdialect.ir.quant import (
    DCastOp,
    QCastOp,
    RescaleOp,
    UniformType,
    element_type,
    quant_element,
    with_element,
)
from qdialect.ir.quant.elements import expressed_type
from qdialect.passes.constant_scalars import scalar_of
from qdialect.passes.folding.constant_evaluation import dequantize
from qdialect.passes.importing.composite_forms import Form
from qdialect.rewrite import Refusal

#: constants in files are rounded to f32, and differently by each exporter
_CLOSE = 2.0**-22
_NEAR = 3
"""A remark tells what differs where so many pieces match, and half of all; two for an operand."""

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


def numbers_of(value: SSAValue, session: QContext) -> NDArray[Any] | None:
    """The floats that a constant, or one behind a dequantize, is worth."""
    value = _stored(value)
    array = constant_values(value, session)
    if array is None or quant_element(value.type) is None:
        return array
    found = dequantize(array, value)
    return None if isinstance(found, Refusal) else found


def _stored(value: SSAValue) -> SSAValue:
    owner = value.owner
    return owner.input if isinstance(owner, DCastOp) and constant_of(owner.input) else value


Piece = tuple[Operation, str | None]
"""The op of a piece, and the role that the piece has in it if it is not its result: the product in
a fully connected op with a bias."""


def _source(value: SSAValue) -> SSAValue:
    return value.owner.operands[0] if isinstance(value.owner, RescaleOp) else value


@dataclass
class Match:
    """A composite in a graph: the op that it is, on values of the graph and on new constants."""

    kind: type[NNOp]
    operands: list[SSAValue]
    properties: Mapping[str, Attribute]
    #: what the op takes the place of
    results: Sequence[SSAValue]
    #: the ops of each role, as many as it has values
    pieces: Mapping[str, Sequence[Piece]]
    #: what computes neither a result nor a piece, constants left out
    others: Sequence[Operation]
    #: what the pieces are rounded to, by role
    types: Mapping[str, UniformType]
    #: by operand, how it lies in the graph if not as it is
    moves: Mapping[int, Move]
    inexact: bool
    #: whether nothing else uses what is computed on the way
    is_closed: bool
    #: whether pieces are quantized and dequantized
    is_cast: bool
    #: whether any value on the way is rounded
    is_rounded: bool

    @property
    def root(self) -> Operation:
        """The op of the first result."""
        owner = self.results[0].owner
        assert isinstance(owner, Operation)
        return owner


@dataclass
class Miss:
    """A near match: the name of the composite, how many pieces match, and what differs."""

    name: str = ""
    matched: int = 0
    reason: str = ""

    def or_none(self, size: int) -> Miss:
        """This, if it has half of `size` pieces."""
        return self if 2 * self.matched >= size else Miss()


@dataclass(frozen=True)
class Move:
    """How a constant operand lies in the graph: `perm` undoes a transpose, if there is one, and
    `shape` is the one that the operand has."""

    shape: tuple[int, ...]
    perm: tuple[int, ...] | None = None

    def type_of(self, value: SSAValue) -> Attribute:
        """The type of the operand whose value in the graph is `value`."""
        return ranked(tensor_type(value).element_type, self.shape)

    def written(self, value: SSAValue, session: QContext) -> Operation:
        """The op, in no block, that gives the operand."""
        if (constant := constant_of(value)) is None:
            return ReshapeOp(value, self.shape)
        array = constant_array(constant, session.blobs)
        array = (array if self.perm is None else array.transpose(self.perm)).reshape(self.shape)
        return make_constant(array.copy(), tensor_type(value).element_type, session.blobs)


def find(form: Form, result: SSAValue, session: QContext) -> Match | Miss:
    """The op of a form that computes `result`, or what differs."""
    name, start = form.probe.name, Matching(session, form, name=form.probe.name, size=form.size)
    matched = start.run(form.final, result)
    if matched is None or not matched.bound.keys() >= set(form.arguments):
        return start.miss.or_none(form.size)
    best = Miss()
    for probe in matched.probes():
        if isinstance(probe, str):
            best = Miss(name, form.size, f"the op {probe}")
            continue
        found = _compared(probe, form.build, result, session)
        if isinstance(found, Match):
            return found
        best = found
    return best


def _compared(probe: NNOp, build: Build, result: SSAValue, session: QContext) -> Match | Miss:
    """The pieces of `probe`, which is in a block, as those of a graph."""
    block = probe.parent
    assert block is not None
    pieces = Pieces(probe, session.blobs, {}, session.target.most_pieces)
    before = set(block.ops)
    try:
        final = built(build, probe, pieces)
    except (NoPiecesError, VerifyException) as error:
        return Miss(probe.name, _NEAR, str(error))
    size = sum(not _is_constant(op) for op in block.ops if op not in before)
    start = Matching(session, name=probe.name, size=size)
    matched = None if final is None else start.run(final[0], result)
    if matched is None or not matched.bound.keys() >= set(block.args):
        return start.miss.or_none(size)
    kind, expected = as_float(result.type), probe.results[0].type
    if kind != expected:
        return Miss(probe.name, len(matched.bound), f"the result is {kind}, not {expected}")
    matched.inexact |= pieces.rounds_constants
    return matched.found(probe, None, pieces.values, [result])


def is_new(value: SSAValue) -> bool:
    """Whether a value is computed in no function of the module."""
    op = value.owner
    return isinstance(op, Operation) and (op.parent is None or op.parent.parent is None)


def _stores(value: SSAValue) -> Operation | None:
    """The op that gives a piece of codes as it is stored, or computes a float."""
    value = value if quant_element(value.type) is None else rounded(value)
    return value.owner if isinstance(value.owner, Operation) else None


def _alone(pieces: Mapping[str, Sequence[Piece]]) -> dict[str, list[Piece]]:
    """The pieces of each role, without those that other roles have too: of steps that are the same
    value in two roles, the others tell what each role is."""
    shared = Counter(piece for group in pieces.values() for piece in dict.fromkeys(group))
    alone = {role: [p for p in group if shared[p] == 1] for role, group in pieces.items()}
    return {role: alone[role] or [*group] for role, group in pieces.items()}


def _rescaled(value: SSAValue) -> SSAValue:
    use, op = value.first_use, value.owner
    is_end = use is None or not value.has_one_use() or not isinstance(use.operation, RescaleOp)
    named = isinstance(op, Operation) and KEY in op.attributes
    return value if is_end or named or use is None else use.operation.results[0]


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
    if isinstance(op, SqueezeOp) and isinstance(op.operands[0].owner, SliceOp):
        op = op.operands[0].owner
    return isinstance(op, SliceOp) and op.operands[0] in arguments


@dataclass
class Matching:
    """The part of a pattern that is found in a graph so far."""

    session: QContext
    #: the form that is compared, whose numbers and types stand for any
    form: Form | None = None
    bound: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    numbers: dict[SSAValue, float] = field(default_factory=dict[SSAValue, float])
    moves: dict[SSAValue, Move] = field(default_factory=dict[SSAValue, Move])
    inexact: bool = False
    #: how many pieces are above, of the one that is compared
    depth: int = 0
    miss: Miss = field(default_factory=Miss)
    name: str = ""
    #: how many pieces the pattern has
    size: int = _NEAR

    def found(
        self,
        probe: NNOp,
        operands: list[SSAValue] | None,
        roles: Mapping[str, Sequence[SSAValue]],
        results: Sequence[SSAValue],
    ) -> Match:
        """The op that was found, `probe` on `operands` (None: those that are bound), whose pieces
        are the values of `roles`."""
        bound = self.bound
        casts = _casts(bound, results)
        types: dict[str, UniformType] = {}
        pieces: dict[str, list[Piece]] = {
            role: [] for role in self.session.components[probe.name].roles_of(probe)
        }
        for role, group in roles.items():
            values = [bound[pattern] for pattern in group if pattern in bound]
            stored = [[op.results[0] for op in casts[v]] if v in casts else [v] for v in values]
            elements = [quant_element(value.type) for each in stored for value in each]
            element = elements[0] if len(elements) == len(values) and elements else None
            is_sum = element is None or element.qparams.storage == Storage.of("i32")
            if element is not None and elements.count(element) == len(elements) and not is_sum:
                types[role] = element
            computed = [(v.owner, _stores(bound[v])) for v in group if v in bound]
            pieces[role] = [
                (op, "matmul" if _has_more(pattern, op) else None) for pattern, op in computed if op
            ]
        named = {bound.get(v) for group in roles.values() for v in group} | set(results)
        others = [
            value.owner
            for pattern, value in bound.items()
            if not isinstance(pattern, BlockArgument)
            and value not in named
            and isinstance(value.owner, Operation)
            and not isinstance(value.owner, DCastOp | RescaleOp)
            and not _is_constant(value.owner)
        ]
        cast = any(isinstance(op, QCastOp) for group in casts.values() for op in group)
        return Match(
            type(probe),
            operands or [bound.get(operand, operand) for operand in probe.operands],
            probe.properties,
            [_rescaled(value) for value in results],
            _alone(pieces),
            others,
            types,
            {n: self.moves[v] for n, v in enumerate(probe.operands) if v in self.moves},
            self.inexact,
            _is_closed(bound, results, casts),
            cast,
            bool(casts) or any(quant_element(value.type) for value in results),
        )

    def probes(self) -> Iterator[NNOp | str]:
        """The ops that the form may be here, each on block arguments and constants in a block; or
        why it takes no such operands."""
        assert self.form is not None
        form, session = self.form, self.session
        arrays = {
            n: numbers_of(self.bound[value], session) for value, (n, _) in form.arrays.items()
        }
        known = {n: array.ravel() for n, array in arrays.items() if array is not None}
        if (
            not all(np.isfinite(array).all() for array in known.values())
            or known.keys() < arrays.keys()
        ):
            yield "takes no constant with numbers that are not finite"
            return
        like, choices = next(iter(known.values()), np.zeros(0)), self._choices(form)
        for values in product(*choices.values()):
            block = Block(arg_types=[self._type(each) for each in form.arguments])
            operands: list[SSAValue] = [*block.args]
            for number in range(len(operands), len(form.probe.operands)):
                given = form.given.get(form.names[number])
                array = known[number] if given is None else np.full_like(like, given)
                block.add_op(
                    made := make_constant(array, element_type(block.args[0].type), session.blobs)
                )
                operands.append(made.result)
            try:
                probe = type(form.probe)(*operands, **dict(zip(choices, values, strict=True)))
                probe.verify_()
            except (VerifyException, ValueError) as error:
                yield str(error).removeprefix(f"'{form.probe.name}' op ")
                continue
            block.add_op(probe)
            yield probe

    def _choices(self, form: Form) -> dict[str, list[Any]]:
        """By property its values: the one that is given or shows, that of a piece with the same
        property, or else any integer that a piece has, and the default."""
        pairs = [(pattern.owner, value.owner) for pattern, value in self.bound.items()]
        pieces = [op for pattern, op in pairs if isinstance(pattern, NNOp) and isinstance(op, NNOp)]
        choices: dict[str, list[Any]] = {}
        for (value, place), (name, factor) in form.shown.items():
            owner = self.bound[value].owner if place else None
            number = owner.values[place] if isinstance(owner, NNOp) else self.numbers[value]
            choices.setdefault(name, [number * factor])
        every = [value for op in pieces for value in op.values.values()]
        flat: list[Any] = [n for v in every for n in cast("Any", v if type(v) is tuple else (v,))]
        integers = list(dict.fromkeys(n for n in flat if type(n) is int))
        for name, default in form.probe.values.items():
            if name in form.given:
                choices[name] = [form.given[name]]
            elif name != "rounding" and name not in choices:
                same = [op.values[name] for op in pieces if name in op.values]
                choices[name] = same[:1] or [*(integers if type(default) is int else ()), default]
        return choices

    def _type(self, argument: SSAValue) -> Attribute:
        value, move = self.bound[argument], self.moves.get(argument)
        return as_float(value.type if move is None else move.type_of(value))

    def run(self, pattern: SSAValue, value: SSAValue) -> Matching | None:
        """Bound further so that `value` is what `pattern` says, or None."""
        found = self._run(pattern, value)
        if found is None:
            few = _is_moved(pattern) or (
                self.size < _NEAR and not isinstance(pattern, BlockArgument)
            )
            self._missed(lambda: self._difference(pattern, value), 2 if few else _NEAR)
        return found

    def _missed(self, reason: Callable[[], str], least: int = _NEAR) -> None:
        """Record a difference, unless one was found where more pieces match."""
        least = max(least, self.miss.matched + 1)
        if self.depth + len(self.bound) < least:
            return
        matched = self.depth + sum(isinstance(v.owner, Operation) for v in self.bound)
        if matched >= least:
            self.miss.name, self.miss.matched, self.miss.reason = self.name, matched, reason()

    def _difference(self, pattern: SSAValue, value: SSAValue) -> str:
        """How a value differs from that of the pattern, for people."""
        op, other = unrounded(value).owner, pattern.owner
        found = f"'{op.name}'" if isinstance(op, Operation) else "an argument"
        found += "".join(f" at '{key}'" for key in keys_of(op)) if isinstance(op, Operation) else ""
        if isinstance(other, Block):
            return f"{found} is not the value that the op has there"
        if _is_constant(other):
            one, two = (_number(each, self.session) for each in (value, pattern))
            if one is not None and two is not None:
                return f"a number is {one:g}, not {two:g}"
            what = "a constant number" if prod(shape_of(pattern)) == 1 else "the constant of the op"
            return f"{found} is not {what}"
        if isinstance(other, TransposeOp) and _is_moved(pattern):
            return f"{found} is not a constant matrix"
        if _is_moved(pattern):
            return f"{found} gives {value.type}, not one number for each channel"
        if not isinstance(op, NNOp) or not isinstance(other, NNOp) or op.name != other.name:
            return f"the graph has {found} where the op has '{other.name}'"
        expected, actual = _properties(other), _properties(op)
        for name in expected if self.form is None else ():
            if actual.get(name) != expected[name]:
                return f"{found} has {name} {actual.get(name)}, not {expected[name]}"
        return f"{found} has other operands"

    def _run(self, pattern: SSAValue, value: SSAValue) -> Matching | None:
        if isinstance(pattern, BlockArgument):
            return self._argument(pattern, value)
        value = unrounded(value)
        if pattern in self.bound:
            return self if self.bound[pattern] is value else None
        op, other = pattern.owner, value.owner
        assert isinstance(op, Operation)
        is_exact = self.form is not None and self.form.is_exact
        if is_exact and _is_all(op) and not (type(other) is type(op) and _is_all(other)):
            return self.run(op.operands[0], value)
        if is_exact and _is_constant(other) and (argument := _argument_of(pattern)):
            # An operand is one value, or all its parts are constants.
            more = {**self.bound, pattern: value}
            moves = {**self.moves, argument: Move(shape_of(argument))}
            return None if argument in self.bound else replace(self, bound=more, moves=moves)
        if self.form is not None and pattern in self.form.arrays:
            return self._array(pattern, value)
        if _is_constant(op):
            if (found := self._constant(pattern, _number(value, self.session))) is not None:
                return found
            return self._array(pattern, value)
        if type(op) is MulOp:
            return self._product(pattern, value)
        if _is_moved(pattern) and type(other) is not type(op):
            move = _undone(op, value)
            return move and self._argument(op.operands[0], value, move)
        if is_exact and isinstance(other, FullyConnectedOp) and len(other.operands) > 2:
            return self._biased(op, pattern, value)
        same = self._is_same(op, other) if isinstance(other, NNOp) else None
        if same is None:
            return None
        assert isinstance(other, NNOp)
        orders = [tuple(other.operands)]
        if type(op) is AddOp:
            orders.append((other.operands[1], other.operands[0]))
        for operands in orders:
            found: Matching | None = replace(self, depth=self.depth + 1)
            for inner, actual in zip(op.operands, operands, strict=True):
                move = _without_ones(inner, actual) if type(op) is AddOp else None
                if found is not None:
                    run = found.run(inner, actual) if move is None else None
                    found = run or (found._argument(inner, actual, move) if move else None)
            if found is not None:
                bound = {**found.bound, pattern: value}
                return replace(
                    found, bound=bound, inexact=found.inexact or not same, depth=self.depth
                )
        return None

    def _biased(self, op: Operation, pattern: SSAValue, value: SSAValue) -> Matching | None:
        """A sum of a product and a constant is one op in the graph."""
        product, other = op.operands[0].owner, value.owner
        if not isinstance(product, FullyConnectedOp) or not isinstance(other, FullyConnectedOp):
            return None
        found: Matching | None = self
        parts = (*product.operands, op.operands[1])
        for inner, actual in zip(parts, other.operands, strict=True):
            found = found and found.run(inner, actual)
        more = {pattern: value, op.operands[0]: value}
        return found and replace(found, bound={**found.bound, **more})

    def _argument(
        self, pattern: SSAValue, value: SSAValue, move: Move | None = None
    ) -> Matching | None:
        """An operand of the op is `value`, moved."""
        if pattern in self.bound or pattern in self.moves:
            bound, moved = self.bound.get(pattern), self.moves.get(pattern)
            if moved == move and bound in (value, _source(value)):
                return self
            # One of the pieces that take an operand may take it rescaled.
            if bound is None or _source(bound) is not value or moved or move:
                return None
        kind = as_float(value.type if move is None else move.type_of(value))
        if self.form is None and pattern.type != kind:
            return None
        moves = self.moves if move is None else {**self.moves, pattern: move}
        return replace(self, bound={**self.bound, pattern: value}, moves=moves)

    def _constant(self, pattern: SSAValue, number: float | None) -> Matching | None:
        free = self.form is not None and not self.form.is_exact
        if free and number is not None and not shape_of(pattern):
            return replace(self, numbers={**self.numbers, pattern: number})
        expected = _number(pattern, self.session)
        if expected is None or number is None or not _is_close(number, expected):
            return None
        return replace(self, inexact=self.inexact or number != expected)

    def _is_same(self, pattern: Operation, op: NNOp) -> bool | None:
        """Whether `op` is the same function, dimensions counted from either end: False where
        numbers differ by what files round off, None where it is another one. The integers of a
        form, and the numbers that show properties, stand for any."""
        if pattern.name != op.name or len(pattern.operands) != len(op.operands):
            return None
        assert isinstance(pattern, NNOp)
        expected, actual = _properties(pattern), _properties(op)
        if expected.keys() != actual.keys():
            return None
        if (form := self.form) is not None and not form.is_exact:
            place = pattern.results[0]
            fixed = {
                name: value
                for name, value in expected.items()
                if isinstance(value, float | str) and (place, name) not in form.shown
            }
            expected, actual = fixed, {name: actual[name] for name in fixed}
        if expected == actual:
            return True
        close = all(a == actual[n] or _is_close(actual[n], a) for n, a in expected.items())
        return False if close else None

    def _array(self, pattern: SSAValue, value: SSAValue) -> Matching | None:
        """A constant with the numbers of the pattern's constant, or with a row of them."""
        two = numbers_of(value, self.session)
        if two is None:
            return None
        if self.form is not None and (pattern in self.form.arrays or not self.form.is_exact):
            expected = self.form.arrays.get(pattern, (0, np.zeros(0)))[1].size
            fits = two.size == expected if self.form.is_exact else two.size > 1 and expected > 0
            return replace(self, bound={**self.bound, pattern: value}) if fits else None
        one = numbers_of(pattern, self.session)
        if one is None or one.size != two.size:
            return None
        rank = max(one.ndim, two.ndim)
        shapes = {(*(1,) * (rank - array.ndim), *array.shape) for array in (one, two)}
        return self if len(shapes) == 1 and (one.ravel() == two.ravel()).all() else None

    def _product(self, pattern: SSAValue, value: SSAValue) -> Matching | None:
        factors = list(_factors(pattern))
        for leaves, products in _splits(value, len(factors), self.session):
            for order in permutations(range(len(factors))):
                found: Matching | None = replace(self, depth=self.depth + 1)
                for index, leaf in zip(order, leaves, strict=True):
                    if found is None:
                        break
                    found = found._factor(factors[index], leaf)
                if found is not None:
                    bound = _bound_products(pattern, products, order)
                    bound |= {**found.bound, pattern: value}
                    return replace(found, bound=bound, depth=self.depth)
        return None

    def _factor(self, pattern: SSAValue, leaf: _Leaf) -> Matching | None:
        if isinstance(leaf, SSAValue):
            return self.run(pattern, leaf)
        if not _is_constant(pattern.owner):
            return None
        found = self._constant(pattern, leaf)
        if found is None and (expected := _number(pattern, self.session)) is not None:
            number = expected
            self._missed(lambda: f"a factor is {leaf:g}, not {number:g}")
        return found and replace(found, inexact=True)


def _has_more(pattern: Operation | Block, op: Operation) -> bool:
    return isinstance(pattern, FullyConnectedOp) and len(op.operands) > len(pattern.operands)


def _is_constant(op: Operation | Block) -> bool:
    return type(op) is ConstantOp


def _is_all(op: Operation | Block) -> bool:
    """Whether an op of the pieces is its operand, as `canonicalize` finds."""
    if isinstance(op, SliceOp):
        return op.operands[0].type == op.results[0].type
    return isinstance(op, ConcatOp) and len(op.operands) == 1


def _argument_of(pattern: SSAValue) -> BlockArgument | None:
    """The operand of the composite that a part belongs to."""
    while isinstance(op := pattern.owner, SliceOp | SqueezeOp):
        pattern = op.operands[0]
    return pattern if isinstance(pattern, BlockArgument) else None


def parts_of(argument: SSAValue, matched: Matching) -> NDArray[Any] | None:
    """An operand of which the graph has the parts as constants; None if one is missing."""
    shape = shape_of(argument)
    indices, found = np.arange(prod(shape)).reshape(shape), np.full(prod(shape), np.nan)
    for pattern, value in matched.bound.items():
        if (
            pattern is not argument
            and _argument_of(pattern) is argument
            and _is_constant(value.owner)
        ):
            array = numbers_of(value, matched.session)
            places = _taken(pattern, indices)
            if array is None or array.size != places.size:
                return None
            found[places.ravel()] = array.ravel()
    return None if np.isnan(found).any() else found.reshape(shape)


def _taken(pattern: SSAValue, array: NDArray[Any]) -> NDArray[Any]:
    """What slices and squeezes take of an operand."""
    op = pattern.owner
    if not isinstance(op, NNOp):
        return array
    array = _taken(op.operands[0], array)
    if isinstance(op, SqueezeOp):
        return array.squeeze(op.values["axes"])
    bounds = zip(*(op.values[name] for name in ("starts", "stops", "steps")), strict=True)
    return array[tuple(slice(*each) for each in bounds)]


def _undone(op: Operation, value: SSAValue) -> Move | None:
    """How `value` is the operand of a movement whose result it is."""
    constant, element = constant_of(value), quant_element(value.type)
    if element is not None and (constant is None or not element.qparams.is_per_tensor):
        return None
    if isinstance(op, TransposeOp) and constant is not None and element is None:
        perm = tuple(int(n) for n in np.argsort(op.values["perm"]))
        shape = shape_of(value)
        return Move(tuple(shape[n] for n in perm), perm) if len(shape) == len(perm) else None
    if not isinstance(op, UnsqueezeOp):
        return None
    rank, axes, shape = len(shape_of(op.result)), op.values["axes"], shape_of(value)
    ones, rest = shape[: len(shape) - rank], shape[-rank:]
    rest = (*(1,) * (rank - len(rest)), *rest)
    if {*ones, *(rest[axis] for axis in axes)} - {1}:
        return None
    return Move(tuple(n for axis, n in enumerate(rest) if axis not in axes))


def _without_ones(pattern: SSAValue, value: SSAValue) -> Move | None:
    shape, more = shape_of(value), len(shape_of(value)) - len(shape_of(pattern))
    fits = isinstance(pattern, BlockArgument) and more > 0 and {*shape[:more]} == {1}
    return Move(shape[more:]) if fits and constant_of(_stored(value)) is not None else None


def _is_moved(pattern: SSAValue) -> bool:
    """Whether this is an operand of the composite, unsqueezed or transposed."""
    op = pattern.owner
    if isinstance(op, Block) or op.name not in ("nn.unsqueeze", "nn.transpose"):
        return False
    return isinstance(op.operands[0], BlockArgument)


def _number(value: SSAValue, session: QContext) -> float | None:
    """The one number that a constant, or one behind a dequantize, holds everywhere."""
    number = scalar_of(_stored(value), session)
    return None if number is None else float(number)


def _factors(value: SSAValue) -> Iterator[SSAValue]:
    if type(value.owner) is MulOp:
        for operand in value.owner.operands:
            yield from _factors(operand)
    else:
        yield value


def _products(value: SSAValue, first: int = 0) -> Iterator[tuple[SSAValue, range]]:
    """The products that a product is made of, itself last, and which factors each has."""
    if type(value.owner) is MulOp:
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
    if type(op) is PowOp and op.values["exponent"] == count:
        yield (op.operands[0],) * count, (whole,)
    elif type(op) is DivOp:
        divisor = _number(op.operands[1], session)
        if divisor:
            for leaves, products in _splits(op.operands[0], count - 1, session, first):
                yield (*leaves, 1.0 / divisor), (*products, whole)
    elif type(op) is MulOp:
        for left in range(1, count):
            for leaves, products in _splits(op.operands[0], left, session, first):
                others = _splits(op.operands[1], count - left, session, first + left)
                for more, last in others:
                    yield (*leaves, *more), (*products, *last, whole)


def _is_close(actual: Any, expected: Any) -> bool:
    both = isinstance(actual, float) and isinstance(expected, float)
    return both and abs(actual - expected) <= _CLOSE * abs(expected)


def _properties(op: NNOp) -> dict[str, Any]:
    values = {name: value for name, value in op.values.items() if name != "rounding"}
    if "axes" in values:
        rank = max(len(shape_of(value)) for value in (op.operands[0], op.results[0]))
        values["axes"] = normalize_axes(values["axes"], rank)
    return values
