"""Orders of channels in which blocks of weights lose least by rounding; pure numbers.

Every so many weights of a row have one step, as large as the largest of them needs.  With noise of
power step^2 / 12, a block B of channels loses

    sum_o v_o max_{c in B} A_oc^2 * sum_{c in B} e_c

with A_oc the weight from channel c to row o, e_c the mean square of what it is multiplied with, v_o
what noise in row o costs.  Channels of large weights among small ones make all of their block
coarse, so those of one size are put together.  Which size is best is not known beforehand, as it
is a matter of rows and of mean squares: several are to be tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


POWERS = (0.0, -0.5, -1.0)
"""Of the mean squares: how far channels that are multiplied with much are kept among small ones."""


def sizes_of_channels(sums: Array, most: Array, energies: Array) -> Iterator[Array]:
    """The logarithms of sizes [channels] by which channels may be put in order: of what the squares
    of their weights cost in all rows, in the `sums` of these and the `most` of a row, each times
    powers of the mean squares `energies`; and of the mean squares alone."""
    least = np.finfo(np.float64).tiny
    first, second, last = (np.log(np.maximum(each, least)) for each in (sums, most, energies))
    yield from (size + power * last for size in (first, second) for power in POWERS)
    yield last


def sorted_within(sizes: Array, blocks: Sequence[Sequence[int]]) -> list[NDArray[np.int64]]:
    """For each list of channels, an order of it by falling size: the k-th becomes what the one at
    `order[k]` is."""
    return [np.argsort(-sizes[list(block)], kind="stable") for block in blocks]
