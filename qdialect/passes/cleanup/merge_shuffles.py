"""Make one gather of reshape, transpose, reshape that reorder one dimension.

A channel shuffle splits a dimension, swaps the parts and joins them again:

    reshape(transpose_p(reshape(x)))  ->  gather(x, order) along the dimension

where the shape at the end is that of x, the transpose moves only parts of one
dimension, and the order is what it does to the numbers 0, 1, ..  A gather copies
whole rows; a runtime that keeps channels last would merge the transpose with its own
into one that moves single bytes.  Exact; where the target's price of a gather is not
higher than that of a transpose.

For example

    %0 = nn.reshape %x : (!x) -> !parts
    %1 = nn.transpose %0 perm [0, 2, 1, 3] : (!parts) -> !swapped
    %2 = nn.reshape %1 : (!swapped) -> !x

becomes

    %0 = nn.constant dense<[0, 3, 1, 4, 2, 5]> : tensor<6xi64> : tensor<6xi64>
    %2 = nn.gather %x, %0 axis 1 : (!x, tensor<6xi64>) -> !x
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.contract import EXACT, Contract
from qdialect.analysis.codes import qparams_of
from qdialect.ir.ops import FlattenOp, GatherOp, ReshapeOp, TransposeOp, make_constant, shape_of
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.passes.rule_pass import RulePass, erase_new, refuse_new
from qdialect.rewrite import Refusal, Rewriter, Rule

Shape = Sequence[int]


@dataclass(frozen=True)
class Order:
    """Dimension `axis` in another order: split into `parts`, those permuted."""

    axis: int
    parts: tuple[int, ...]
    perm: tuple[int, ...]

    def indices(self) -> Any:
        """Where each row comes from."""
        import numpy as np

        rows = np.arange(prod(self.parts), dtype=np.int64).reshape(self.parts)
        return rows.transpose(self.perm).reshape(-1)


def order_of(whole: Shape, split: Shape, perm: Shape) -> Order | None:
    """What reshape to `split`, transpose, reshape back to `whole` does, if it reorders one
    dimension.  Only the first extent of both may be unknown."""
    moved = [n for n, p in enumerate(perm) if n != p]
    if not moved:
        return None
    start, stop = moved[0], moved[-1] + 1
    if DYNAMIC in (whole[0], split[0]):
        if whole[0] != split[0] or start == 0:
            return None
        whole, split = (1, *whole[1:]), (1, *split[1:])
    if DYNAMIC in (*whole, *split) or 0 in whole:
        return None
    before, after = prod(split[:start]), prod(split[stop:])
    for axis, extent in enumerate(whole):
        above, below = prod(whole[:axis]), prod(whole[axis + 1 :])
        if extent > 1 and not before % above and not after % below:
            parts = (before // above, *split[start:stop], after // below)
            inner = [p - start + 1 for p in perm[start:stop]]
            return Order(axis, parts, (0, *inner, len(parts) - 1))
    return None


@dataclass(frozen=True)
class _Shuffle:
    op: Operation
    transpose: TransposeOp
    x: SSAValue
    order: Order


class ShuffleToGather(Rule[_Shuffle]):
    """reshape(transpose(reshape(x))) = gather(x, order); see the module."""

    name = "shuffle-to-gather"

    def roots(self) -> Iterable[str]:
        return (ReshapeOp.name, FlattenOp.name)

    def match(self, op: Operation) -> _Shuffle | None:
        transpose = op.operands[0].owner
        if not isinstance(transpose, TransposeOp):
            return None
        split = transpose.operands[0].owner
        if not isinstance(split, ReshapeOp | FlattenOp):
            return None
        x = split.operands[0]
        if x.type != op.results[0].type:
            return None
        order = order_of(shape_of(x), shape_of(split.results[0]), transpose.values["perm"])
        return None if order is None else _Shuffle(op, transpose, x, order)

    def check(self, match: _Shuffle) -> Contract | Refusal:
        uses = (match.op.operands[0], match.transpose.operands[0])
        if not all(value.has_one_use() for value in uses):
            return Refusal("multi-use", "a value in the middle is also used elsewhere")
        params = qparams_of(match.x)
        if params is not None and not params.is_per_tensor:
            return Refusal("grid", "parameters differ along a dimension")
        target = self.session.target
        new = self._build(match)
        refusal = refuse_new(self.session, new)
        price, saved = target.op_price(new[-1]), target.op_price(match.transpose)
        erase_new(new)
        if refusal is None and price > saved:
            refusal = Refusal("price", f"{target.name}: costs {price:g}, a transpose {saved:g}")
        return refusal or EXACT

    def rewrite(self, match: _Shuffle, rewriter: Rewriter) -> None:
        rewriter.replace_by(match.op, self._build(match))

    def _build(self, match: _Shuffle) -> list[Operation]:
        constant = make_constant(match.order.indices(), i64, self.session.blobs)
        return [
            constant,
            GatherOp(
                match.x,
                constant,
                axis=match.order.axis,
                result_types=[match.op.results[0].type],
                attributes=match.op.attributes,
            ),
        ]


@dataclass(frozen=True)
class MergeShuffles(RulePass):
    """One gather for reshapes and a transpose that reorder a dimension; see the module."""

    name = "merge-shuffles"
    of = (ShuffleToGather,)
