"""Write ops that move pixels of codes as transposes, reshapes and copies with channels last.

Where channels are last, all numbers of a pixel lie side by side and are moved as one; a kernel for
channels first moves byte by byte.  Transposes to and fro often meet those a runtime puts around
convolutions, which take channels last:

    depth_to_space (DCR)      [n, h, w, b, b c]  ->  [n, h, b, w, b c]     a transpose
    resize_nearest by i, j    [n, h, 1, w, c]    ->  [n, h, i, w, j c]     a tile

Exact.  Where the target says so (`Target.moves_axis`), for known extents.

For example

    %0 = nn.depth_to_space %x block 2 : (!x) -> !y

becomes

    %1 = nn.transpose %x perm [0, 2, 3, 1] : (!x) -> !pixels
    %2 = nn.reshape %1 : (!pixels) -> !blocks
    %3 = nn.transpose %2 perm [0, 1, 3, 2, 4] : (!blocks) -> !rows
    %4 = nn.reshape %3 : (!rows) -> !image
    %0 = nn.transpose %4 perm [0, 3, 1, 2] : (!image) -> !y
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from qdialect.algebra.contract import EXACT, Contract
from qdialect.analysis.codes import qparams_of
from qdialect.ir.context import QContext
from qdialect.ir.ops import (
    DepthToSpaceOp,
    ReshapeOp,
    ResizeNearestOp,
    TileOp,
    TransposeOp,
    shape_of,
)
from qdialect.ir.ops.resize import nearest_indices
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.passes.rule_pass import RulePass, Where
from qdialect.rewrite import Refusal, Rewriter, Rule

_LAST = (0, 2, 3, 1)
_FIRST = (0, 3, 1, 2)


class PixelsMoved(Rule[Operation]):
    """Pixels are moved whole; see the module."""

    name = "pixels-moved"

    def __init__(self, session: QContext, where: Where) -> None:
        super().__init__(session)
        self._everywhere = where == "all"

    def roots(self) -> Iterable[str]:
        return (DepthToSpaceOp.name, ResizeNearestOp.name)

    def match(self, op: Operation) -> Operation | None:
        params = qparams_of(op.operands[0])
        return None if params is None or not params.is_per_tensor else op

    def check(self, match: Operation) -> Contract | Refusal:
        target, shape = self.session.target, shape_of(match.operands[0])
        if not self._everywhere and not target.moves_axis(match):
            return Refusal("first", f"{target.name} runs '{match.name}' with channels first")
        if len(shape) != 4 or DYNAMIC in shape or 0 in shape:
            return Refusal("shape", "the extents of its pixels are not known")
        if isinstance(match, DepthToSpaceOp):
            if match.values["mode"] != "DCR":
                return Refusal("mode", "pixels of a block are not side by side")
        elif isinstance(match, ResizeNearestOp) and _factors(match) is None:
            return Refusal("factor", "not every pixel is repeated so often along a dimension")
        return EXACT

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        n, channels, high, wide = shape_of(match.operands[0])
        new: list[Operation] = [TransposeOp(match.operands[0], perm=_LAST)]

        def then(kind: type[ReshapeOp | TransposeOp | TileOp], **properties: Any) -> None:
            new.append(kind(new[-1].results[0], **properties))

        if isinstance(match, DepthToSpaceOp):
            block = match.values["block"]
            then(ReshapeOp, shape=(n, high, wide, block, channels // block))
            then(TransposeOp, perm=(0, 1, 3, 2, 4))
        else:
            assert isinstance(match, ResizeNearestOp)
            factors = _factors(match)
            assert factors is not None
            then(ReshapeOp, shape=(n, high, 1, wide, channels))
            then(TileOp, repeats=(1, 1, factors[0], 1, factors[1]))
        _, channels, high, wide = shape_of(match.results[0])
        then(ReshapeOp, shape=(n, high, wide, channels))
        then(TransposeOp, perm=_FIRST)
        rewriter.replace_by(match, new)


def _factors(op: ResizeNearestOp) -> tuple[int, int] | None:
    """How often each pixel is repeated in its column and in its row, if all are as often."""
    source, result = shape_of(op.operands[0]), shape_of(op.results[0])
    if source[:2] != result[:2] or any(b % a for a, b in zip(source, result, strict=True)):
        return None
    factors = [b // a for a, b in zip(source, result, strict=True)]
    indices = nearest_indices(source, op.values).indices
    for copied, n, factor in zip(indices, source, factors, strict=True):
        if copied != (tuple(i for i in range(n) for _ in range(factor)) if factor > 1 else None):
            return None
    return factors[2], factors[3]


@dataclass(frozen=True)
class ChannelsLast(RulePass):
    """Pixels moved with channels last, where a target is faster so; see the module.

    `where`: `target` asks it, `all` does it everywhere.
    """

    name = "channels-last"

    where: Where = "target"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (PixelsMoved(session, self.where),)
