"""Codes of weights of least error behind a contraction, not of least error each; pure numbers.

A row w of weights becomes w' = step (code - zero), number by number. What that does to the
result of the contraction is (w' - w) x for each operand x, whose mean square is

    loss(w') = (w' - w) H (w' - w)^T,        H = E[x x^T],

so errors of weights whose operands go together may cancel. To find the codes of least loss is
the closest vector problem; here are

    nearest    each number alone: exact where H is diagonal
    gptq       column after column, each nearest to what cancels the errors of those before it:
               with H = U U^T, U upper triangular, the loss is |(w' - w) U|^2, and of the terms

                   ((w' - w) U)_j = (w'_j - w_j) U_jj + sum over i < j of (w'_i - w_i) U_ij

               each is made as small as w'_j alone can. That is GPTQ (Frantar et al., 2022), which
               writes the same with the Cholesky factor of the inverse of H (Chen et al., 2025:
               it is Babai's nearest plane). Columns of large H_jj, whose error costs most, first
    descend    from any codes: each column in turn is set to its best code, the others as they
               are, until none changes. The loss never grows

Arrays may have more dimensions in front (groups of a convolution): rows [..., o, K] and H
[..., K, K]. `Grid` says what codes there are; `fit_steps` chooses steps of least loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Codes = NDArray[np.int64]

_BLOCK = 64
"""Columns that are rounded before what their errors do to all others is computed at once."""
_SWEEPS = 5
DAMPINGS = (0.005, 0.02, 0.06, 0.2, 0.6)
"""Fractions that are tried where samples tell how much of what they show is chance."""
_FACTORS = tuple(1 - n / 40 for n in range(28))


@dataclass(frozen=True)
class Grid:
    """The numbers that weights may become: steps * (codes - zeros), with codes from `low` to
    `high`; or steps * levels[codes] for `levels`, which rise (NF4).

    `steps` (above 0) and `zeros` are broadcast to the rows.
    """

    steps: Array
    low: int = 0
    high: int = 0
    zeros: Array | float = 0.0
    levels: Array | None = None

    @staticmethod
    def of_levels(steps: Array, levels: Sequence[float]) -> Grid:
        """Codes that name levels, which need not be evenly spaced."""
        return Grid(steps, 0, len(levels) - 1, levels=np.array(levels, np.float64))

    def codes(self, numbers: Array) -> Codes:
        """The codes nearest to numbers."""
        if self.levels is not None:
            between = (self.levels[1:] + self.levels[:-1]) / 2
            return np.searchsorted(between, numbers / self.steps).astype(np.int64)
        codes = np.rint(numbers / self.steps + self.zeros)
        return np.clip(codes, self.low, self.high).astype(np.int64)

    def numbers(self, codes: Codes) -> Array:
        """The numbers that codes name."""
        if self.levels is not None:
            return self.levels[codes] * self.steps
        return (codes - self.zeros) * self.steps

    def rounded(self, numbers: Array) -> Array:
        """The nearest of its numbers."""
        return self.numbers(self.codes(numbers))

    def whole(self, shape: tuple[int, ...]) -> Grid:
        """The same with an entry for each weight."""
        steps = np.broadcast_to(np.asarray(self.steps, np.float64), shape)
        return replace(self, steps=steps, zeros=np.broadcast_to(self.zeros, shape))

    def column(self, number: int) -> Grid:
        """The entries of one column, of a `whole` grid."""
        zeros = np.asarray(self.zeros, np.float64)[..., number]
        return replace(self, steps=self.steps[..., number], zeros=zeros)

    def taken(self, order: NDArray[np.intp]) -> Grid:
        """The columns in another order [..., 1, K], of a `whole` grid."""
        zeros = np.take_along_axis(np.asarray(self.zeros), order, -1)
        return replace(self, steps=np.take_along_axis(self.steps, order, -1), zeros=zeros)


def loss(error: Array, hessian: Array) -> Array:
    """error H error^T of each row [..., o, K]; H is [..., K, K]."""
    return np.einsum("...k,...k->...", error @ hessian, error)


def damped(hessian: Array, fraction: float = 0.01) -> Array:
    """H and a fraction of its mean diagonal on its diagonal: what few samples did not show is not
    free. Operands that are always 0 get a diagonal of that, or 1 where all are."""
    mean = np.trace(hessian, axis1=-2, axis2=-1)[..., None] / hessian.shape[-1]
    added = np.where(mean > 0, mean * fraction, 1.0)
    return hessian + added[..., None] * np.eye(hessian.shape[-1])


def best_damping(rows: Array, grid: Grid, halves: tuple[Array, Array]) -> float:
    """How much to damp a matrix that is of all samples, from those of two halves of them: of some
    fractions the one whose codes (`gptq`) by one half lose least by the other, which were chosen by
    half as many samples, so that for all half of it is enough."""
    whole, losses = grid.whole(rows.shape), list[float]()
    for fraction in DAMPINGS:
        lost = 0.0
        for seen, other in (halves, halves[::-1]):
            codes = gptq(rows, whole, damped(seen, fraction))
            lost += float(loss(whole.numbers(codes) - rows, other).sum())
        losses.append(lost)
    return DAMPINGS[int(np.argmin(losses))] / 2


def shifted(rows: Array, hessian: Array, cross: Array, fraction: float = 0.01) -> Array:
    """The rows whose products with x' are nearest to those of `rows` with x, where x' is what
    rounding above makes of x: W (E[x x'^T] + l) (E[x' x'^T] + l)^-1, with `cross` and `hessian`
    these moments, and l a fraction of the mean diagonal, which draws the rows to what they are.

    E|W x - Ŵ x'|^2 is then the loss of Ŵ around these rows by `hessian`, and a constant.
    """
    added = damped(hessian, fraction) - hessian
    right = (cross + added).swapaxes(-1, -2) @ rows.swapaxes(-1, -2)
    found = np.linalg.solve(hessian + added, right)
    return np.asarray(found.swapaxes(-1, -2), np.float64)


def nearest(rows: Array, grid: Grid) -> Codes:
    """The code nearest to each weight."""
    return grid.whole(rows.shape).codes(rows)


def gptq(rows: Array, grid: Grid, hessian: Array) -> Codes:
    """Codes column after column, for positive definite H (see `damped`); for a row that the
    nearest codes have less loss for, those."""
    whole = grid.whole(rows.shape)
    diagonal = np.diagonal(hessian, axis1=-2, axis2=-1)
    order = np.argsort(-diagonal, axis=-1, kind="stable")
    columns = order[..., None, :]
    sorted_rows = np.take_along_axis(rows, np.broadcast_to(columns, rows.shape), -1)
    ordered = np.take_along_axis(hessian, order[..., :, None], -2)
    ordered = np.take_along_axis(ordered, order[..., None, :], -1)
    factor = _upper_factor(ordered)
    found = _by_columns(sorted_rows, whole.taken(np.broadcast_to(columns, rows.shape)), factor)
    codes = np.empty_like(found)
    np.put_along_axis(codes, np.broadcast_to(columns, rows.shape), found, -1)
    plain = whole.codes(rows)
    before, after = (loss(whole.numbers(c) - rows, hessian) for c in (plain, codes))
    return np.where((after < before)[..., None], codes, plain)


def _upper_factor(hessian: Array) -> Array:
    """U, upper triangular, with H = U U^T: the Cholesky factor from the last column on."""
    reverse: Array = np.asarray(np.linalg.cholesky(hessian[..., ::-1, ::-1]), np.float64)
    return reverse[..., ::-1, ::-1]


def _by_columns(rows: Array, grid: Grid, factor: Array) -> Codes:
    """Codes of columns from the first on; the errors of those before go into each as said above,
    of those in earlier blocks all at once."""
    count = rows.shape[-1]
    error, codes = np.zeros_like(rows), np.zeros(rows.shape, np.int64)
    for first in range(0, count, _BLOCK):
        last = min(first + _BLOCK, count)
        pushed = error[..., :first] @ factor[..., :first, first:last]
        for j in range(first, last):
            inside = error[..., first:j] @ factor[..., first:j, j, None]
            push = (pushed[..., j - first] + inside[..., 0]) / factor[..., None, j, j]
            here = grid.column(j)
            codes[..., j] = here.codes(rows[..., j] - push)
            error[..., j] = here.numbers(codes[..., j]) - rows[..., j]
    return codes


def descend(
    rows: Array, grid: Grid, hessian: Array, start: Codes | None = None, sweeps: int = _SWEEPS
) -> Codes:
    """Codes from which no change of a single one lessens the loss, from `start` (None: of `gptq`);
    or what so many sweeps over the columns reach. The loss is never more than that of `start`."""
    whole = grid.whole(rows.shape)
    codes = (gptq(rows, grid, hessian) if start is None else start).copy()
    numbers = whole.numbers(codes)
    diagonal = np.diagonal(hessian, axis1=-2, axis2=-1)
    count = rows.shape[-1]
    for _ in range(sweeps):
        slope, moved = (numbers - rows) @ hessian, False
        for first in range(0, count, _BLOCK):
            last = min(first + _BLOCK, count)
            change = np.zeros((*rows.shape[:-1], last - first))
            for j in range(first, last):
                inside = change[..., : j - first] @ hessian[..., first:j, j, None]
                slope_j, steep = slope[..., j] + inside[..., 0], diagonal[..., None, j]
                shift = np.where(steep > 0, slope_j / np.where(steep > 0, steep, 1.0), 0.0)
                here = whole.column(j)
                code = here.codes(numbers[..., j] - shift)
                by = here.numbers(code) - numbers[..., j]
                # Of two codes as good as each other it stays with the one it has.
                better = (2 * slope_j + steep * by) * by < -1e-12 * steep * np.square(here.steps)
                codes[..., j] = np.where(better, code, codes[..., j])
                change[..., j - first] = np.where(better, by, 0.0)
            if change.any():
                moved = True
                numbers[..., first:last] += change
                slope += change @ hessian[..., first:last, :]
        if not moved:
            break
    return codes


def fit_steps(
    rows: Array,
    grid: Grid,
    hessian: Array,
    block: int = 0,
    factors: Sequence[float] = _FACTORS,
    expressed: Callable[[Array], Array] = lambda steps: steps,
) -> Grid:
    """The grid with steps of least loss of the nearest codes, among its own times `factors`: one
    factor for each row, or for every `block` columns of it (errors of other blocks aside).

    `expressed` rounds steps to the type that they are stored in, elementwise; the steps of the
    result are whole, and equal where the factor and the given steps are.
    """
    whole, count = grid.whole(rows.shape), rows.shape[-1]
    size = block or count
    if count % size:
        raise ValueError(f"{count} columns are no blocks of {size}")
    shape = (*rows.shape[:-1], count // size, size)
    parts: NDArray[np.int64] = np.arange(count, dtype=np.int64).reshape(-1, size)
    inside = hessian[..., parts[:, :, None], parts[:, None, :]]
    best, least = whole.steps, np.full(shape[:-1], np.inf)
    for factor in factors:
        tried = replace(whole, steps=expressed(whole.steps * factor))
        error = (tried.rounded(rows) - rows).reshape(shape)
        weighted = np.einsum("...onk,...nkl->...onl", error, inside, optimize=True)
        found = np.einsum("...k,...k->...", weighted, error)
        better = np.repeat(found < least, size, axis=-1).reshape(rows.shape)
        best, least = np.where(better, tried.steps, best), np.minimum(found, least)
    return replace(whole, steps=best)
