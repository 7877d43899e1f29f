"""Mix the channels of a block by a matrix, or put them in another order: constants take it up, the
function stays.

    %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]>      R = [[0, 1], [1, 0]] on %h
    %v = nn.constant dense<[[5.0, 6.0]]>
    %h = nn.fully_connected %x, %w
    %y = nn.fully_connected %h, %v

becomes

    %w = nn.constant dense<[[3.0, 4.0], [1.0, 2.0]]>
    %v = nn.constant dense<[[6.0, 5.0]]>
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from qdialect.analysis.channel_groups import ChannelGroup
from qdialect.analysis.channel_labels import Labels, Term
from qdialect.analysis.channel_mixing import fibre_dim
from qdialect.context import QContext
from qdialect.quantization.float_rewrites.apply import constant_numbers, replace_constants

Array = NDArray[np.float64]


Mixed = tuple[ChannelGroup, Sequence[int], NDArray[Any]]
"""Classes of a group, in the order of the rows of a matrix, and the matrix that mixes them; or an
order of them: the k-th becomes what the class at `order[k]` is."""

Mix = Callable[[Array, int], Array]
"""What becomes of fibres [..., channels] whose labels have this sign."""


def mix_channels(changes: Iterable[Mixed], ctx: QContext) -> int:
    """Multiply the channels of blocks by invertible matrices, or permute them; how many constants
    changed. A class is in one change at most.

    In the reals the function stays as it was. In floats every new constant is rounded once, after
    a product in float64, and what is computed grows with the condition of the matrix, which is
    1 for a rotation; an order rounds none. ValueError for a matrix that is not square or cannot be
    inverted and for what is no order, NotFiniteError where a constant would overflow; nothing is
    changed then.
    """
    arrays = mixed_constants(changes, ctx)
    replace_constants(arrays, ctx)
    return len(arrays)


def mixed_constants(
    changes: Iterable[Mixed], ctx: QContext
) -> Mapping[tuple[Operation, int], Array]:
    """What constant operands, by op and number, would be. ValueError as in `mix_channels`."""
    arrays: dict[tuple[Operation, int], Array] = {}
    for group, block, change in changes:
        mix = _mix(block, change)
        for absorber in group.absorbers:
            use = absorber.op, absorber.operand
            for term in absorber.terms:
                if np.isin(np.abs(term.labels), block).any():
                    array = arrays.get(use)
                    array = (
                        constant_numbers(use, ctx).astype(np.float64) if array is None else array
                    )
                    arrays[use] = _mixed(array, term, block, mix)
    return arrays


def mixed_value(array: Array, labels: Labels, block: Sequence[int], change: NDArray[Any]) -> Array:
    """What a value with these labels would be; further dimensions come first."""
    if not np.isin(np.abs(labels), block).any():
        return array
    return _mixed(array, Term(labels, 1), block, _mix(block, change))


def _mix(block: Sequence[int], change: NDArray[Any]) -> Mix:
    """A matrix or an order as what it makes of fibres: the inverse factor is mixed by the inverse,
    transposed, which of a permutation is that itself."""
    count = len(block)
    if change.ndim == 1:
        if not np.array_equal(np.sort(change), np.arange(count)):
            raise ValueError(f"expects each of 0 to {count - 1} once")
        return lambda fibres, sign: fibres[..., change]
    if change.shape != (count, count):
        raise ValueError(f"expects a matrix of {count} rows and columns")
    try:
        sides = {1: change, -1: np.linalg.inv(change).T.astype(np.float64)}
    except np.linalg.LinAlgError:
        raise ValueError("the matrix has no inverse") from None
    return lambda fibres, sign: fibres @ sides[sign].T


def _mixed(array: Array, term: Term, block: Sequence[int], mix: Mix) -> Array:
    """A constant with the elements of a block replaced, fibre by fibre."""
    dim = fibre_dim(term.labels)
    assert dim is not None
    shape = np.broadcast_shapes(array.shape, term.labels.shape)
    offset = len(shape) - term.labels.ndim
    result = np.array(np.broadcast_to(array, shape))
    fibres: Any = np.moveaxis(result, dim + offset, -1)
    labels = term.labels.reshape((1,) * offset + term.labels.shape)
    labels = np.moveaxis(labels, dim + offset, -1)
    for place in np.ndindex(labels.shape[:-1]):
        row = labels[place]
        at = {abs(int(label)): n for n, label in enumerate(row) if label}
        if block[0] not in at:
            continue
        columns = [at[label] for label in block]
        sign = term.sign * int(np.sign(row[columns[0]]))
        # Along dimensions in which the labels do not differ, all fibres at once.
        where = tuple(
            slice(None) if extent == 1 else slice(index, index + 1)
            for extent, index in zip(labels.shape[:-1], place, strict=True)
        )
        fibres[(*where, columns)] = mix(fibres[where][..., columns], sign)
    return result
