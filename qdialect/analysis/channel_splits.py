"""Which channels of which values may be there twice, on any graph.

    W2 f(W1 x + b) = (W2 E^T H) f(E (W1 x + b))    E copies channels, H halves what is there twice

The walk is that of permutations: what is computed element by element gives equal copies of equal
copies. Weights behind read both, each with half of what they were; or more generally with two parts
of it. Sums over all channels would count them twice, and stop here; so do products of two values
that are summed, and weights in groups of several channels.

A value gets larger, so every op that meets it must be one that can be written for another extent:
that is tried by its own verifier, with properties that say the extent changed too
(`quantizer.float_rewrites.splitting`).

Contract: exact in the reals, and in floats up to the order of sums, as halves are exact (but for
subnormal numbers).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from qdialect.analysis.channel_groups import ChannelGroup
from qdialect.analysis.channel_labels import Labels
from qdialect.analysis.channel_mixing import joins_all
from qdialect.analysis.channel_permutations import PermutationWalk, blocks_of, one_to_one
from qdialect.analysis.channel_walk import Walk
from qdialect.ir.behaviors import Accumulator, Behavior
from qdialect.ir.context import QContext


def find_splittable(function: FuncOp, ctx: QContext) -> list[tuple[ChannelGroup, Sequence[int]]]:
    """The groups of `function` with channels that may be there twice, and their classes; all
    labels of a group lie along one dimension of what they are on."""
    found: list[tuple[ChannelGroup, Sequence[int]]] = []
    for group, blocks in blocks_of(_SplitWalk(ctx), function):
        if all(sum(n > 1 for n in labels.shape) <= 1 for labels in _arrays(group)):
            found.append((group, sorted(label for block in blocks for label in block)))
    return found


def _arrays(group: ChannelGroup) -> Iterator[Labels]:
    yield from group.values.values()
    yield from (term.labels for each in group.absorbers for term in each.terms)


class _SplitWalk(PermutationWalk):
    """Equal labels are one channel, however often it is there."""

    def linear(self, op: Operation, behavior: Behavior) -> Sequence[Labels] | None:
        """Sums over channels count them."""
        return Walk.linear(self, op, behavior)

    def matrices(self, op: Operation, sums: Accumulator) -> Sequence[Labels] | None:
        """Products of values count the channels that are summed."""
        return None

    def contraction(
        self, op: Operation, behavior: Behavior, sums: Accumulator
    ) -> Sequence[Labels] | None:
        """Of weights that read all channels, or one each."""
        if self.use_of(op, sums.rhs) is not None and sums.channels is not None:
            inner, outer = sums.channels(op)
            if not (joins_all(inner, outer) or one_to_one(inner, outer)):
                return None
        return super().contraction(op, behavior, sums)
