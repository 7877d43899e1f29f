"""Rules of `canonicalize` on movements: two that are one, and two that undo each other.

    transpose(transpose(x)), reshape(reshape(x)), flip(flip(x))    -> one movement
    transpose_p(f(transpose_q(x), transpose_q(y), c))              -> f(x, y, transpose_p(c))
    a movement that changes neither shape nor order                -> operand

where f is any number of elementwise ops, p undoes q, and c is a constant. All exact.

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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.analysis.codes import constant_values, qparams_of
from qdialect.context import QContext
from qdialect.numerics.contract import EXACT, Contract
from qdialect.ops import (
    ConstantOp,
    FlattenOp,
    FlipOp,
    ReshapeOp,
    TransposeOp,
    constant_of,
    make_constant,
    shape_of,
)
from qdialect.ops.base import ints, ranked
from qdialect.ops.component_keys import join_keys
from qdialect.ops.shapes import DYNAMIC, normalize_axes
from qdialect.passes.casts.cast_rules import Pair
from qdialect.passes.rule_pass import refuse_types
from qdialect.quant import DCastOp, QCastOp, RescaleOp, UniformType, element_type
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped

_CASTS = (DCastOp, QCastOp, RescaleOp)
_USES = 8
"""As many uses of one value are looked for among elementwise ops."""


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


class ComposeTranspose(Rule[Pair]):
    """transpose_p(transpose_q(x)) = transpose_{q[p]}(x)."""

    name = "compose-transpose"

    def roots(self) -> Iterable[str]:
        return (TransposeOp.name,)

    def match(self, op: Operation) -> Pair | None:
        owner = op.operands[0].owner
        return Pair(op, owner) if isinstance(owner, TransposeOp) else None

    def check(self, match: Pair) -> Contract | Refusal:
        return EXACT

    def rewrite(self, match: Pair, rewriter: Rewriter) -> None:
        outer, inner = match.lower, match.upper
        assert isinstance(outer, TransposeOp) and isinstance(inner, TransposeOp)
        through = inner.values["perm"]
        perm = ints(*(through[p] for p in outer.values["perm"]))
        new = TransposeOp.create(
            operands=[match.source],
            result_types=[match.result.type],
            properties={"perm": perm},
            attributes=outer.attributes,
        )
        rewriter.replace_by(outer, [new])


class ComposeReshape(Rule[Pair]):
    """reshape(reshape(x)) = reshape(x), flatten counting as a reshape."""

    name = "compose-reshape"

    def roots(self) -> Iterable[str]:
        return (ReshapeOp.name, FlattenOp.name)

    def match(self, op: Operation) -> Pair | None:
        owner = op.operands[0].owner
        if not isinstance(owner, ReshapeOp | FlattenOp):
            return None
        # With several unknown extents, or one in an empty tensor, the type alone does
        # not tell the shape.
        shape = shape_of(op.results[0])
        known = DYNAMIC not in shape or (shape.count(DYNAMIC) == 1 and 0 not in shape)
        return Pair(op, owner) if known else None

    def check(self, match: Pair) -> Contract | Refusal:
        return EXACT

    def rewrite(self, match: Pair, rewriter: Rewriter) -> None:
        new = ReshapeOp.create(
            operands=[match.source],
            result_types=[match.result.type],
            attributes=match.lower.attributes,
        )
        rewriter.replace_by(match.lower, [new])


class ComposeFlip(Rule[Pair]):
    """flip_a(flip_b(x)) = flip_{a + b}(x), where dimensions in both are read forwards again; x
    itself if all are."""

    name = "compose-flip"

    def roots(self) -> Iterable[str]:
        return (FlipOp.name,)

    def match(self, op: Operation) -> Pair | None:
        owner = op.operands[0].owner
        return Pair(op, owner) if isinstance(owner, FlipOp) else None

    def check(self, match: Pair) -> Contract | Refusal:
        return EXACT

    def rewrite(self, match: Pair, rewriter: Rewriter) -> None:
        outer, inner = match.lower, match.upper
        assert isinstance(outer, FlipOp) and isinstance(inner, FlipOp)
        rank = len(shape_of(match.source))
        both = (set(normalize_axes(each.values["axes"], rank)) for each in (outer, inner))
        axes = set[int].symmetric_difference(*both)
        if not axes:
            rewriter.replace(outer, [match.source])
            return
        new = FlipOp.create(
            operands=[match.source],
            result_types=[match.result.type],
            properties={"axes": ints(*sorted(axes))},
            attributes=outer.attributes,
        )
        rewriter.replace_by(outer, [new])


@dataclass(frozen=True)
class _Region:
    """Elementwise ops between transposes: `ops`, the lowest first, whose results nothing but
    these and `lower` uses, and the values they read that none of them computes."""

    lower: TransposeOp
    ops: tuple[Operation, ...]
    leaves: tuple[SSAValue, ...]


class TransposesAround(Rule[_Region]):
    """transpose_p(f(transpose_q(x), ..)) = f(x, ..) if p undoes q, for elementwise f; see the
    module. Constants are transposed, and what has one element stays as it is."""

    name = "transposes-around"

    def __init__(self, session: QContext) -> None:
        super().__init__(session)
        #: elementwise ops above which no transpose is: no rewrite moves one up there
        self._bare: set[Operation] = set()

    def roots(self) -> Iterable[str]:
        return (TransposeOp.name,)

    def match(self, op: Operation) -> _Region | None:
        assert isinstance(op, TransposeOp)
        ops: dict[Operation, None] = {}
        met: dict[SSAValue, int] = {}
        pending = [op.operands[0]]
        while pending:
            value = pending.pop()
            met[value] = met.get(value, 0) + 1
            owner = value.owner
            if (
                isinstance(owner, Operation)
                and owner not in self._bare
                and self._is_elementwise(owner)
                and _has_uses(value, met[value])
            ):
                ops[owner] = None
                pending += self._laid_out(owner)
        leaves = [value for value in met if value.owner not in ops]
        if not any(isinstance(value.owner, TransposeOp) for value in leaves):
            self._bare.update(ops)
        if not ops or not any(_undone(op, value) for value in leaves):
            return None
        return _Region(op, tuple(ops), tuple(leaves))

    def _is_elementwise(self, op: Operation) -> bool:
        if isinstance(op, _CASTS):
            return True
        behavior = self.session.behaviors.get(op)
        return behavior is not None and behavior.elementwise and len(op.results) == 1

    def _laid_out(self, op: Operation) -> Sequence[SSAValue]:
        """The operands that are read element by element: of a lookup not its table."""
        behavior = self.session.behaviors.get(op)
        is_lookup = behavior is not None and behavior.on_stored is not None
        return op.operands[:1] if is_lookup else op.operands

    def check(self, match: _Region) -> Contract | Refusal:
        perm = match.lower.values["perm"]
        for value in match.leaves:
            refusal = None if _undone(match.lower, value) else self._refuse_leaf(value, perm)
            if refusal is not None:
                return refusal
        for op in match.ops:
            if any(len(shape_of(v)) != len(perm) for v in op.results):
                return Refusal("rank", f"the result of '{op.name}' has another rank")
            read = self._laid_out(op)
            # Leaves of another type, scalars and constants, are as good for a port as they were.
            operands = [_permuted(v, perm) if v in read else v.type for v in op.operands]
            results = [_permuted(v, perm) for v in op.results]
            behavior = self.session.behaviors.get(op)
            if behavior is not None:
                refusal = refuse_types(self.session, behavior, op, operands, results)
                if refusal is not None:
                    return refusal
            elif reason := self.session.target.refuses(op, operands, results):
                return Refusal("target", f"{self.session.target.name}: {reason}")
        return EXACT

    def _refuse_leaf(self, value: SSAValue, perm: Sequence[int]) -> Refusal | None:
        """Why an operand that no transpose gives cannot be read in the other order."""
        params, shape = qparams_of(value), shape_of(value)
        if set(shape) <= {1} and (params is None or params.is_per_tensor):
            return None
        owner = value.owner
        if constant_of(value) is not None and len(shape) <= len(perm):
            if params is not None and not params.is_per_tensor and len(shape) < len(perm):
                return Refusal("grid", "a constant of lower rank has several scales")
            if constant_values(value, self.session) is None:
                return Refusal("weights", "what a constant holds is not there")
            return None
        if isinstance(owner, Operation) and self._is_elementwise(owner):
            return Refusal("multi-use", f"the result of '{owner.name}' is also used elsewhere")
        return Refusal("operands", "not all operands are transposed so that it undoes them")

    def rewrite(self, match: _Region, rewriter: Rewriter) -> None:
        lower, perm = match.lower, match.lower.values["perm"]
        there: dict[SSAValue, SSAValue] = {}
        for value in match.leaves:
            there[value] = _undone(lower, value) or value
            constant = constant_of(value)
            if constant is not None and not set(shape_of(value)) <= {1}:
                there[value] = self._transposed(constant, perm, rewriter)
        for op in reversed(match.ops):
            read = self._laid_out(op)
            operands = [there[v] if v in read else v for v in op.operands]
            new = retyped(op, operands, [_permuted(op.results[0], perm)])
            # A key is that of the numbers, whose order is another one.
            rewriter.insert(new, op, keep=op)
            there[op.results[0]] = new.results[0]
        rewriter.replace(lower, [there[lower.operands[0]]])
        for value in match.leaves:
            source, upper = there[value].owner, value.owner
            is_gone = isinstance(upper, TransposeOp) and upper.parent is None
            if is_gone and isinstance(source, Operation):
                rewriter.joined |= join_keys(source, upper)

    def _transposed(
        self, constant: ConstantOp, perm: Sequence[int], rewriter: Rewriter
    ) -> SSAValue:
        array = constant_values(constant.result, self.session)
        assert array is not None
        wide = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
        kind = constant.result.type
        if array.ndim == len(perm):
            kind = _permuted(constant.result, perm)
        new = make_constant(wide.transpose(perm), element_type(kind), self.session.blobs)
        rewriter.insert(new, constant)
        return new.result


def _has_uses(value: SSAValue, count: int) -> bool:
    """Whether `value` has `count` uses and no more; a few are counted."""
    return count <= _USES and len(list(islice(value.uses, count + 1))) == count


def _undone(lower: TransposeOp, value: SSAValue) -> SSAValue | None:
    """What `value` is a transpose of that `lower` undoes, if it is one."""
    upper = value.owner
    if not isinstance(upper, TransposeOp):
        return None
    outer, inner = lower.values["perm"], upper.values["perm"]
    undoes = len(outer) == len(inner) and all(inner[p] == k for k, p in enumerate(outer))
    return upper.operands[0] if undoes else None


def _permuted(value: SSAValue, perm: Sequence[int]) -> Attribute:
    """The type of `value` transposed; what is of lower rank stays."""
    shape, params = shape_of(value), qparams_of(value)
    if len(shape) != len(perm):
        return value.type
    element = element_type(value.type)
    if params is not None:
        element = UniformType(params.transposed(perm))
    return ranked(element, [shape[p] for p in perm])
