"""Codes of weights that stay alone in codes (`blocks`), of least error of the products on samples.

Codes of least squared error are those of least error of a product only where operands are
independent and alike. Of every product in the state `weights-only` the second moments H = E[x x^T]
of its operand are measured on samples (`hessians`); scales and zero points are of least

    sum over a block of H_ii (w'_i - w_i)^2,

and the codes on them of little (w' - w) H (w' - w)^T (GPTQ, and from there one code after another;
`algebra.weight_rounding`). H is damped as much as codes by one half of the samples say that they
need to be good for the other.  Where a product has a bias, that takes up the mean of what its
result is off by, (W' - W) E[x], and H is that of x - E[x].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from xdsl.ir import Operation

from qdialect.quantizer.biases import is_lessened
from qdialect.quantizer.block_formats import block_format
from qdialect.quantizer.blocks import WEIGHTS_ONLY, Coded, coded_weight
from qdialect.quantizer.grids import Grids
from qdialect.quantizer.hessians import Moments, batches, measurable, moments_of_parts, rows_of
from qdialect.quantizer.selection import Selection
from qdialect.quantizer.values import real_array, reals_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.quantizer.recipe import Recipe

    Array = NDArray[np.float64]
    Arrays = Mapping[str, NDArray[Any]]


def gains(recipe: Recipe) -> bool:
    """Whether codes are few enough for their rounding to matter without being asked for."""
    return bool(recipe.only_weights) and block_format(recipe.weights).storage.width < 8


class Rounded(NamedTuple):
    """A weight, and what the bias is lessened by (None: it stays)."""

    coded: Coded
    shift: Array | None


@dataclass
class BlockRounding:
    """Chooses the codes of all products whose weights alone become codes, with the samples and the
    engine to measure with."""

    samples: Sequence[Arrays]
    engine: str
    #: what was found, by the number of the op, its weights and the recipe
    _known: dict[tuple[int, bytes, str], Rounded] = field(
        default_factory=dict[tuple[int, bytes, str], "Rounded"]
    )

    def __call__(self, selection: Selection, grids: Grids) -> None:
        """Put the codes into `grids`; an op of which nothing can be measured is left out."""
        values = selection.values
        names: dict[Operation, tuple[int, bytes, str]] = {}
        for number, op in enumerate(values.block.ops):
            why = selection.left.get(op)
            if why is None or why.code != WEIGHTS_ONLY or not measurable(op):
                continue
            array = real_array(op.operands[1], values.ctx.blobs)
            assert array is not None
            digest = sha256(np.ascontiguousarray(array).tobytes()).digest()
            recipe = values.recipe
            asked = (
                f"{recipe.weights} {recipe.block} {recipe.scale_type} {recipe.per_channel} "
                f"{is_lessened(op, selection)}"
            )
            names[op] = number, digest, asked
        missing = [op for op, name in names.items() if name not in self._known]
        for batch in batches(missing, 2):
            halves = moments_of_parts(values, batch, self.samples, self.engine, 2)
            for op in batch:
                found = [half[op] for half in halves if half[op].count]
                if found:
                    self._known[names[op]] = _rounded(selection, op, found)
        for op, name in names.items():
            if name in self._known:
                grids.only_weights[op], shift = self._known[name]
                if shift is not None:
                    grids.shifts[op] = shift


def _rounded(selection: Selection, op: Operation, halves: Sequence[Moments]) -> Rounded:
    """The weight of an op for moments of its operand, of all samples or of each half of them."""
    values = selection.values
    behavior = values.ctx.behaviors.get(op)
    assert behavior is not None
    if not is_lessened(op, selection):
        return Rounded(coded_weight(values, op, behavior, [h.second()[0] for h in halves]), None)
    whole = reduce(Moments.joined, halves)
    coded = coded_weight(values, op, behavior, [half.covariance()[0] for half in halves])
    real = real_array(op.operands[1], values.ctx.blobs)
    assert real is not None
    errors = rows_of(op, reals_of(coded[1], coded[0]) - real)
    assert errors is not None
    return Rounded(coded, errors[0] @ whole.mean()[0])
