"""What contractions take where the ops above them are quantized, beside what they take in floats.

Codes of weights can make up for errors that come from above: with x of the float model and x' of
the quantized one the loss of a row is E|w x - w' x'|^2. So weights are rounded in `stages`, from
above: those of earlier stages are codes when x' is measured, those of the same stage and of later
ones are floats. Each stage costs a run of the float model and one of the quantized one, down to
its ops. Where biases are corrected, that of an op is lessened by the mean of w' x' - w x
(`Grids.shifts`), so that errors of means do not add up on the way down either; the loss is then
that of x - E[x] and x' - E[x'].
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.soft_rounding import Curve, Expected
from qdialect.algebra.weight_rounding import loss, shifted
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.quantizer.grids import Grids
from qdialect.quantizer.hessians import Moments, batches, columns_of, shape_of_moments
from qdialect.quantizer.operands import ValueRun, float_operands
from qdialect.quantizer.quantized_copy import quantized_copy
from qdialect.quantizer.selection import Selection
from qdialect.quantizer.shared_weights import SharedWeights, accumulator_of
from qdialect.quantizer.values import only_user, real_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Floats = NDArray[np.float32]
    Arrays = Mapping[str, NDArray[Any]]

STAGES = 32
"""How many at most."""
_VECTORS = 4096
"""So many vectors, or 4 K, are kept of an op,"""
_KEPT_BYTES = 64 << 20
"""if they are no more than this."""
_POINTS = 257
_FRACTIONS = (0.01, 0.1, 1.0, 10.0)
"""How much rows are drawn to what they are."""


@dataclass
class Paired:
    """Sums over vectors x' of a quantized model and x of the float one: of x' x'^T and x', of
    x x'^T [groups, K, K], of x [groups, K]; and some of the pairs, if they are kept."""

    made: Moments
    cross: Array
    sums: Array
    stride: int = 0
    kept: list[tuple[Floats, Floats]] = field(default_factory=list["tuple[Floats, Floats]"])

    @staticmethod
    def of_rows(groups: int, depth: int) -> Paired:
        """Of no vectors yet."""
        cross, sums = np.zeros((groups, depth, depth)), np.zeros((groups, depth))
        return Paired(Moments.of_rows(groups, depth), cross, sums)

    def add(self, exact: Floats, made: Floats) -> None:
        """Take vectors [groups, K, positions] of both in, unless they overflow."""
        wide = exact.astype(np.float64)
        products = wide @ made.swapaxes(1, 2)
        if not np.isfinite(products).all():
            return
        before = self.made.count
        self.made.add(made)
        if self.made.count > before:
            self.cross += products
            self.sums += wide.sum(axis=2)
            if self.stride:
                self.kept.append((exact[..., :: self.stride], made[..., :: self.stride]))

    def joined(self, other: Paired) -> Paired:
        """Of all vectors of both."""
        return Paired(
            self.made.joined(other.made),
            self.cross + other.cross,
            self.sums + other.sums,
            kept=self.kept + other.kept,
        )

    def means(self) -> tuple[Array, Array]:
        """E[x] and E[x'] [groups, K]."""
        count = max(self.made.count, 1)
        return self.sums / count, self.made.sums / count

    def moments(self, centered: bool) -> tuple[Array, Array]:
        """E[x' x'^T] and E[x x'^T]; of vectors less their means if `centered`."""
        second, cross = self.made.second(), self.cross / self.made.count
        if not centered:
            return second, cross
        mean, made = self.means()
        return self.made.covariance(), cross - mean[:, :, None] * made[:, None, :]


Halves = tuple[Paired, Paired]
"""What was found on every other sample, and on the others."""


def paired(
    selection: Selection,
    grids: Grids,
    groups: Sequence[SharedWeights],
    floats: Collection[SharedWeights],
    samples: Sequence[Arrays],
    engine: str,
    *,
    keep: bool = False,
) -> Iterator[tuple[SharedWeights, Halves]]:
    """What the ops of each group take on samples, where the weights of `floats` are no codes yet;
    with `keep` some of the vectors are kept. A group that overflows on all samples of a half is
    left out."""
    open_places = {(op, accumulator_of(op, selection).rhs) for each in floats for op in each.ops}
    of_op = {op: each for each in groups for op in each.ops}
    firsts = {each.ops[0]: each for each in groups}
    for batch in batches(list(firsts)):
        chosen = [firsts[op] for op in batch]
        ops = [op for each in chosen for op in each.ops]
        sizes = {each: shape_of_moments(each.ops[0]) for each in chosen}
        found = {
            each: (Paired.of_rows(*size), Paired.of_rows(*size)) for each, size in sizes.items()
        }
        copy = quantized_copy(selection, grids, open_places)
        taken = {op: copy.ops[op].operands[0] for op in ops}
        made = ValueRun(copy.module, copy.ctx, taken, engine)
        exact = float_operands(selection.values, ops, engine)
        for number, sample in enumerate(samples):
            known = {op: columns_of(op, array) for op, array in exact.of(sample)}
            for op, array in made.of(sample):
                half, columns = found[of_op[op]][number % 2], known.pop(op)
                if keep and not half.stride:
                    half.stride = _stride(columns, len(samples) * len(of_op[op].ops))
                half.add(columns, columns_of(op, array))
        yield from ((each, both) for each, both in found.items() if all(h.made.count for h in both))


def shifted_rows(rows: Array, both: Halves, centered: bool) -> Array:
    """The rows that are nearest with what quantized ops give (`weight_rounding.shifted`), drawn to
    the rows as much as is best on the half that they are not from; or the rows."""
    found = [half.moments(centered) for half in both]
    losses: dict[float | None, float] = {}
    for fraction in (None, *_FRACTIONS):
        lost = 0.0
        for (hessian, cross), (others, crosses) in (found, found[::-1]):
            made = rows if fraction is None else shifted(rows, hessian, cross, fraction)
            # E|w x - w' x'|^2 less what does not depend on w'.
            lost += float(np.sum(loss(made, others)) - 2 * np.sum((rows @ crosses) * made))
        losses[fraction] = lost
    best = min(losses, key=lambda fraction: losses[fraction])
    whole = both[0].joined(both[1])
    return rows if best is None else shifted(rows, *whole.moments(centered), best)


def _stride(columns: Floats, times: int) -> int:
    groups, depth, positions = columns.shape
    most = min(max(_VECTORS, 4 * depth), _KEPT_BYTES // (4 * groups * depth))
    return max(positions * times // max(most, 1), 1)


def expected_of(
    each: SharedWeights,
    rows: Array,
    found: Paired,
    selection: Selection,
    grids: Grids,
    *,
    same: bool,
) -> Expected:
    """What rows of weights are to give, of the vectors x' that are kept: what they give of x, or,
    with `same`, of x' too."""
    exact, made = (
        np.concatenate([pair[side] for pair in found.kept], axis=2).swapaxes(1, 2)
        for side in (int(same), 1)
    )
    wide, offsets = rows.astype(np.float32), np.zeros((len(rows), 1, rows.shape[1]), np.float32)
    curve = None
    if len(each.ops) == 1:
        offsets += _bias(each.ops[0], selection).astype(np.float32).reshape(offsets.shape)
        curve = curve_behind(each.ops[0], selection, grids)
    results = exact @ wide.swapaxes(1, 2) + offsets
    if curve is not None:
        results, _ = curve(results)
    if each.centered:
        mean, mean_made = (each.astype(np.float32)[:, None, :] for each in found.means())
        mean = mean_made if same else mean
        made = made - mean_made
        offsets += mean @ wide.swapaxes(1, 2)
    return Expected(np.ascontiguousarray(made), results, offsets, curve)


def _bias(op: Operation, selection: Selection) -> Array:
    """The bias of a contraction, or 0."""
    acc = accumulator_of(op, selection)
    if acc.bias is None or acc.bias >= len(op.operands):
        return np.zeros(shape_of(op.results[0])[acc.result_axis(op)])
    found = real_array(op.operands[acc.bias], selection.values.ctx.blobs)
    assert found is not None
    return found


def curve_behind(op: Operation, selection: Selection, grids: Grids) -> Curve | None:
    """What becomes of numbers of the result of an op: those outside the range of its grid are cut
    off, as a relu behind it does, and the function of one number that alone takes it is applied.
    None where nothing is known."""
    value: SSAValue = op.results[0]
    while value not in grids.pairs:
        user = only_user(value)
        behavior = None if user is None else selection.ops.get(user)
        if user is None or behavior is None or not behavior.commutes:
            return None
        value = user.results[0]
    params = grids.qparams[value]
    if not params.is_per_tensor:
        return None
    scale, zero = params.scale_list()[0], float(params.zero_point_array().reshape(-1)[0])
    low, high = ((end - zero) * scale for end in (params.storage.min, params.storage.max))
    user = only_user(value)
    behavior = None if user is None else selection.ops.get(user)
    if user is None or behavior is None or behavior.pointwise is None or len(user.operands) > 1:
        return Curve(low, high, np.array([low, high], np.float32))
    points = np.linspace(low, high, _POINTS)
    return Curve(low, high, behavior.pointwise(user, points).astype(np.float32))
