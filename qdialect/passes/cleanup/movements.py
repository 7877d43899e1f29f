"""Rules of `canonicalize` on movements: two that are one, and two that undo each other.

    transpose(transpose(x)), reshape(reshape(x)), flip(flip(x))    -> one movement
    f(m(x), m(y), c)                                               -> m(f(x, y, c'))
    m'(f(m(x), c)), where m' undoes m                              -> m'(m(f(x, c')))
    a movement that changes neither shape nor order                -> operand

where f is any number of elementwise ops, m any movement that copies its operand by one index map,
and m moves the constant c' to c. All exact. One movement alone stays above f.

For example

    %0 = nn.transpose %x perm [0, 2, 3, 1] : (!x) -> !last
    %1 = nn.sigmoid %0 : (!last) -> !last
    %2 = nn.mul %0, %1 : (!last, !last) -> !last
    %3 = nn.transpose %2 perm [0, 3, 1, 2] : (!last) -> !x

becomes

    %1 = nn.sigmoid %x : (!x) -> !x
    %3 = nn.mul %x, %1 : (!x, !x) -> !x
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.ir import Attribute, Block, Operation, SSAValue

from qdialect.algebra.contract import EXACT, Contract
from qdialect.algebra.qparams.legality import Illegal
from qdialect.analysis.codes import constant_values, qparams_of
from qdialect.ir.behaviors.flow import pulled_along, tied_operands
from qdialect.ir.context import QContext
from qdialect.ir.ops import (
    KEY,
    CompareOp,
    FlattenOp,
    FlipOp,
    ReshapeOp,
    SelectOp,
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
    constant_of,
    make_constant,
    shape_of,
)
from qdialect.ir.ops.base import PINNED, NNOp, ints, ranked
from qdialect.ir.ops.component_keys import join_keys
from qdialect.ir.ops.shapes import DYNAMIC, normalize_axes
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, UniformType, element_type
from qdialect.passes.casts.cast_rules import Pair
from qdialect.passes.rule_pass import refuse_types
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.qparams.maps import IndexMap, Transpose

_CASTS = (DCastOp, QCastOp, RescaleOp)
_CHOICES = (CompareOp, SelectOp)
"""Elementwise too, though declared by what else they are."""
_VIEWS = (ReshapeOp, FlattenOp, SqueezeOp, UnsqueezeOp)
_USES = 8
"""As many uses of one value are looked for among elementwise ops."""
_MOST = 64
"""As many elementwise ops are looked at between movements."""


class IdentityMovement(Rule[Operation]):
    """A movement whose index map is the identity."""

    name = "identity-movement"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.is_identity is not None)

    def match(self, op: Operation) -> Operation | None:
        behavior = self.session.behaviors.get(op)
        assert behavior is not None and behavior.is_identity is not None
        same = behavior.is_identity(op) and op.operands[0].type == op.results[0].type
        return op if same else None

    def check(self, match: Operation) -> Contract | Refusal:
        return EXACT

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        rewriter.replace(match, [match.operands[0]])


class _Compose(Rule[Pair]):
    """Two movements of `kinds` in a row are one of the first kind, with another `value`."""

    kinds: ClassVar[tuple[type[NNOp], ...]]
    value: ClassVar[str] = ""

    def roots(self) -> Iterable[str]:
        return [kind.name for kind in self.kinds]

    def match(self, op: Operation) -> Pair | None:
        owner = op.operands[0].owner
        return Pair(op, owner) if isinstance(owner, self.kinds) else None

    def check(self, match: Pair) -> Contract | Refusal:
        return EXACT

    def composed(self, outer: Mapping[str, Any], inner: Mapping[str, Any], rank: int) -> list[int]:
        """The property of the one movement."""
        return []

    def rewrite(self, match: Pair, rewriter: Rewriter) -> None:
        outer, inner = match.lower, match.upper
        assert isinstance(outer, NNOp) and isinstance(inner, NNOp)
        found = self.composed(outer.values, inner.values, len(shape_of(match.source)))
        new = self.kinds[0].create(
            operands=[match.source],
            result_types=[match.result.type],
            properties={self.value: ints(*found)} if self.value else {},
            attributes=outer.attributes,
        )
        rewriter.replace_by(outer, [new])


class ComposeTranspose(_Compose):
    """transpose_p(transpose_q(x)) = transpose_{q[p]}(x)."""

    name = "compose-transpose"
    kinds, value = (TransposeOp,), "perm"

    def composed(self, outer: Mapping[str, Any], inner: Mapping[str, Any], rank: int) -> list[int]:
        """The permutation."""
        return [inner["perm"][p] for p in outer["perm"]]


class ComposeReshape(_Compose):
    """reshape(reshape(x)) = reshape(x), flatten counting as a reshape."""

    name = "compose-reshape"
    kinds = (ReshapeOp, FlattenOp)

    def match(self, op: Operation) -> Pair | None:
        # With several unknown extents, or one in an empty tensor, the type alone does
        # not tell the shape.
        shape = shape_of(op.results[0])
        known = DYNAMIC not in shape or (shape.count(DYNAMIC) == 1 and 0 not in shape)
        return super().match(op) if known else None


class ComposeFlip(_Compose):
    """flip_a(flip_b(x)) = flip_{a + b}(x), where dimensions in both are read forwards again."""

    name = "compose-flip"
    kinds, value = (FlipOp,), "axes"

    def composed(self, outer: Mapping[str, Any], inner: Mapping[str, Any], rank: int) -> list[int]:
        """The dimensions in one of both."""
        both = (set(normalize_axes(each["axes"], rank)) for each in (outer, inner))
        return sorted(set[int].symmetric_difference(*both))


@dataclass(frozen=True)
class _Movement:
    """An op that moves its operand number `tied` by the index map `along`."""

    op: Operation
    along: IndexMap
    tied: int

    @property
    def source(self) -> SSAValue:
        """What is moved."""
        return self.op.operands[self.tied]

    @property
    def whole(self) -> bool:
        """Whether dimensions move as they are, or backwards: whatever broadcasts along them."""
        from qdialect.algebra.qparams.maps import Flip, Transpose

        return isinstance(self.along, Flip | Transpose)

    def moves_like(self, other: _Movement) -> bool:
        """Whether both move what they read alike."""
        shapes = [[shape_of(m.source), shape_of(m.op.results[0])] for m in (self, other)]
        if isinstance(self.op, _VIEWS) and isinstance(other.op, _VIEWS):
            one = shapes[0][1].count(DYNAMIC) < 2 or self.along == other.along
            return one and shapes[0] == shapes[1]
        pairs = zip(self.op.operands, other.op.operands, strict=False)
        return (
            self.along == other.along
            and (self.whole or shapes[0] == shapes[1])
            and all(n == self.tied or _is_equal(a, b) for n, (a, b) in enumerate(pairs))
        )

    def undoes(self, other: _Movement) -> bool:
        """Whether this moves all back to where it was before the `other`."""
        if isinstance(self.op, _VIEWS) and isinstance(other.op, _VIEWS):
            shape = shape_of(other.source)
            return shape == shape_of(self.op.results[0]) and shape.count(DYNAMIC) < 2
        return self.whole and self.along == (_inverse(other.along) or other.along)

    def refuse(self, shapes: Iterable[Sequence[int]]) -> Refusal | None:
        """Why ops whose results have these `shapes` must not be computed before the movement."""
        from qdialect.algebra.qparams.maps.separable import Separable

        source, result = shape_of(self.source), shape_of(self.op.results[0])
        if self.along.has_border:
            return Refusal("border", f"'{self.op.name}' adds elements that nobody computed")
        if any(len(s) != len(result) if self.whole else s != result for s in shapes):
            return Refusal("shape", "the result of an op has another shape than what is moved")
        if self.whole:
            return None
        before, after = (prod(n for n in shape if n != DYNAMIC) for shape in (source, result))
        kept = [n for n, extent in enumerate(source) if extent == DYNAMIC]
        end = max(kept, default=-1) + 1
        same = before == after and isinstance(self.op, _VIEWS) and source[:end] == result[:end]
        if isinstance(self.along, Separable):
            read = self.along.sources(len(source))
            same = all(k in read and self.along.index(read.index(k), 1) is None for k in kept)
        if (kept and not same) or result.count(DYNAMIC) != len(kept):
            return Refusal("dynamic", "extents that are not known may broadcast")
        if before > after:
            return Refusal("growth", f"{before} elements would be computed in place of {after}")
        return None

    def type_above(self, value: SSAValue) -> Attribute | Refusal:
        """The type of what is moved to `value`."""
        from qdialect.algebra.qparams.parameter_field import ParameterField

        shape, params, element = shape_of(value), qparams_of(value), element_type(value.type)
        above, back = shape if self.whole else shape_of(self.source), _inverse(self.along)
        if back is not None:
            above = back.output_shape([tuple(shape)])
        if params is None or params.is_per_tensor:
            return ranked(element, above)
        if back is not None:
            return ranked(UniformType(params.transposed(back.perm)), above)
        pushed = self.along.push(ParameterField.of(params, shape), [tuple(above)])
        if isinstance(pushed, Illegal):
            return Refusal(pushed.code, pushed.reason)
        if pulled_along(self.along, pushed, params) != params:
            return Refusal("undetermined", "the qparams do not survive the way back")
        return ranked(UniformType(pushed[0].to_qparams()), above)

    def constant_above(
        self, value: SSAValue, session: QContext
    ) -> tuple[NDArray[Any], Attribute] | Refusal:
        """The numbers, and their element type, that are moved to the constant `value`, or to what
        that broadcasts to."""
        array, shape = constant_values(value, session), shape_of(self.op.results[0])
        kind = value.type if len(shape_of(value)) < len(shape) else self.type_above(value)
        if array is None:
            return Refusal("weights", "what a constant holds is not there")
        if isinstance(kind, Refusal):
            return kind
        if self.whole and array.ndim <= len(shape):
            params = qparams_of(value)
            if params is not None and not params.is_per_tensor and array.ndim < len(shape):
                return Refusal("grid", "a constant of lower rank has several scales")
            wide = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
            back = _inverse(self.along) or self.along
            return back.apply([wide]), element_type(kind)
        if array.shape != shape or not array.size:
            return Refusal("shape", "a constant has another shape than what is moved")
        source = shape_of(self.source)
        index = self.along.gather_index([source])[1].reshape(-1)
        above = array.reshape(-1)[:1].repeat(prod(source))
        above[index] = array.reshape(-1)
        if above[index].tobytes() != array.tobytes():
            return Refusal("constant", "a constant differs where copies of one element are")
        return above.reshape(source), element_type(kind)


@dataclass(frozen=True)
class _Region:
    """Elementwise ops below movements: `ops`, the lowest first, whose results nothing but these
    uses, those of the lowest aside; the `leaves` that they read and none of them computes, with
    how often; the `moves` that compute some of these; and whether what alone reads the lowest is
    a movement that undoes them."""

    ops: tuple[Operation, ...]
    leaves: Mapping[SSAValue, int]
    moves: tuple[_Movement, ...]
    undone: bool


class SinkMovements(Rule[_Region]):
    """f(m(x), m(y), c) = m(f(x, y, c')) for elementwise f, where that leaves fewer movements, or
    another below undoes m; see the module. Constants are moved back, and what has one element
    stays as it is."""

    name = "sink-movements"
    far_reaching = True

    def __init__(self, session: QContext) -> None:
        super().__init__(session)
        #: elementwise ops that read what nothing moves: no rewrite moves a movement up there
        self._bare: set[Operation] = set()

    def roots(self) -> Iterable[str]:
        named = self.session.behaviors.names_with(lambda b: b.elementwise)
        return (*named, *(op.name for op in (*_CASTS, *_CHOICES)))

    def match(self, op: Operation) -> _Region | None:
        if len(op.results) != 1 or not self._is_elementwise(op):
            return None
        use = op.results[0].first_use
        lower = use and op.results[0].has_one_use() and self._movement(use.operation)
        if not lower and len(self._read(op)) < 2:
            return None
        ops, leaves = {op: None}, dict[SSAValue, int]()
        pending = list(self._read(op))
        while pending:
            value = pending.pop()
            leaves[value] = leaves.get(value, 0) + 1
            owner = value.owner
            if (
                isinstance(owner, Operation)
                and owner not in self._bare
                and len(ops) < _MOST
                and self._is_elementwise(owner)
                and _has_uses(value, leaves[value])
            ):
                ops[owner] = None
                del leaves[value]
                pending += self._read(owner)
        moves = [m for v in leaves if (m := self._movement(v.owner)) is not None]
        if not moves and any(map(self._is_unmoved, leaves)):
            self._bare.update(ops)
        undone = bool(lower and moves and lower.undoes(moves[0]))
        if not undone and (len(moves) < 2 or any(isinstance(each, _CASTS) for each in ops)):
            return None
        return _Region(tuple(ops), leaves, tuple(moves), undone)

    def _is_elementwise(self, op: Operation) -> bool:
        if PINNED in op.attributes:
            return False
        if isinstance(op, (*_CASTS, *_CHOICES)):
            return True
        behavior = self.session.behaviors.get(op)
        return behavior is not None and behavior.elementwise and len(op.results) == 1

    def _is_unmoved(self, value: SSAValue) -> bool:
        """Whether an operand has elements that no rewrite brings in another order."""
        owner = value.owner
        if isinstance(owner, Operation) and self._is_elementwise(owner):
            return owner in self._bare
        return constant_of(value) is None and not set(shape_of(value)) <= {1}

    def _movement(self, op: Operation | Block) -> _Movement | None:
        behavior = self.session.behaviors.get(op) if isinstance(op, Operation) else None
        if behavior is None or behavior.movement is None or isinstance(op, Block):
            return None
        tied = tied_operands(op, behavior)
        if len(tied) != 1 or len(op.results) != 1:
            return None
        return _Movement(op, behavior.maps(op)[0], tied[0])

    def _read(self, op: Operation) -> Sequence[SSAValue]:
        """The operands that are read element by element: of a lookup not its table."""
        behavior = self.session.behaviors.get(op)
        is_lookup = behavior is not None and behavior.on_stored is not None
        return op.operands[:1] if is_lookup else op.operands

    def check(self, match: _Region) -> Contract | Refusal:
        first, types = match.moves[0], dict[SSAValue, Attribute]()
        if not all(first.moves_like(other) for other in match.moves):
            return Refusal("movements", "the operands are not moved alike")
        uses = [(m.op.results[0], match.leaves[m.op.results[0]]) for m in match.moves]
        if not match.undone and sum(_has_uses(*each) for each in uses) < 2:
            return Refusal("multi-use", f"the result of '{first.op.name}' is also used elsewhere")
        refusal = first.refuse(shape_of(op.results[0]) for op in match.ops)
        moved: dict[SSAValue, Attribute] = {m.op.results[0]: m.source.type for m in match.moves}
        for value in match.leaves:
            types[value] = moved.get(value, value.type)
            refusal = refusal or (None if value in moved else self._refuse_leaf(value, first))
        for op in reversed(match.ops):
            above = first.type_above(op.results[0]) if refusal is None else refusal
            if isinstance(above, Refusal):
                return above
            types[op.results[0]] = above
            read = [v for v in self._read(op) if v.owner in match.ops or v in moved]
            if not (first.whole or read or any(set(shape_of(v)) - {1} for v in op.operands)):
                return Refusal("shape", f"'{op.name}' reads nothing that is moved")
            refusal = self._refuse(op, [types.get(v, v.type) for v in op.operands], [above])
        if refusal is None and not match.undone:
            kinds = list(first.op.operand_types)
            kinds[first.tied] = types[match.ops[0].results[0]]
            refusal = self._refuse(first.op, kinds, match.ops[0].result_types)
        return refusal or EXACT

    def _refuse(
        self, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
    ) -> Refusal | None:
        behavior, target = self.session.behaviors.get(op), self.session.target
        if behavior is None:
            reason = target.refuses(op, operands, results)
            return Refusal("target", f"{target.name}: {reason}") if reason else None
        tied = {element_type(operands[i]) for i in tied_operands(op, behavior)}
        if behavior.movement is None and behavior.is_tied:
            tied.add(element_type(results[0]))
        if len(tied) > 1:
            return Refusal("tied", f"'{op.name}' would read and give different qparams")
        return refuse_types(self.session, behavior, op, operands, results)

    def _refuse_leaf(self, value: SSAValue, first: _Movement) -> Refusal | None:
        """Why an operand that is not moved cannot be read before the movement."""
        params, shape = qparams_of(value), shape_of(value)
        is_one = set(shape) <= {1} and (params is None or params.is_per_tensor)
        if is_one and len(shape) <= len(shape_of(first.source)):
            return None
        if constant_of(value) is not None:
            found = first.constant_above(value, self.session)
            return found if isinstance(found, Refusal) else None
        owner = value.owner
        if isinstance(owner, Operation) and owner not in self._bare and self._is_elementwise(owner):
            return Refusal("multi-use", f"the result of '{owner.name}' is also used elsewhere")
        return Refusal("operands", "not all operands are moved alike")

    def rewrite(self, match: _Region, rewriter: Rewriter) -> None:
        first, root = match.moves[0], match.ops[0]
        there: dict[SSAValue, SSAValue] = {m.op.results[0]: m.source for m in match.moves}
        for value in match.leaves:
            constant = constant_of(value)
            if constant is None or set(shape_of(value)) <= {1} or value in there:
                continue
            found = first.constant_above(value, self.session)
            assert not isinstance(found, Refusal)
            new = make_constant(*found, self.session.blobs)
            rewriter.insert(new, constant)
            there[value] = new.result
        for op in reversed(match.ops):
            above, read = first.type_above(op.results[0]), self._read(op)
            assert not isinstance(above, Refusal)
            operands = [there.get(v, v) if v in read else v for v in op.operands]
            # A key is that of the numbers, whose order is another one.
            new = retyped(op, operands, [above])
            rewriter.insert(new, op, keep=op)
            there[op.results[0]] = new.results[0]
        operands = list(first.op.operands)
        operands[first.tied] = there[root.results[0]]
        move = retyped(first.op, operands, root.result_types)
        move.attributes.pop(KEY, None)
        rewriter.insert(move, root)
        rewriter.replace_value(root.results[0], move.results[0])
        rewriter.erase(root)
        for each in match.moves:
            owner = each.source.owner
            if each.along.permutes and isinstance(owner, Operation) and not each.op.parent:
                rewriter.joined |= join_keys(owner, each.op)


def _has_uses(value: SSAValue, count: int) -> bool:
    return count <= _USES and len(list(islice(value.uses, count + 1))) == count


def _is_equal(a: SSAValue, b: SSAValue) -> bool:
    """Whether both are one value, or equal constants."""
    one, other = constant_of(a), constant_of(b)
    same = one is not None and other is not None and one.value == other.value
    return a is b or (same and a.type == b.type)


def _inverse(along: IndexMap) -> Transpose | None:
    from qdialect.algebra.qparams.maps import Transpose

    if not isinstance(along, Transpose):
        return None
    return Transpose(tuple(along.perm.index(k) for k in range(len(along.perm))))
