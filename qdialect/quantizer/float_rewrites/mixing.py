"""Mix the channels of a block by a matrix: constants take it up, the function stays.

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
from qdialect.analysis.channel_mixing import Block, Matrices, Mixable, fibre_dim
from qdialect.ir.context import QContext
from qdialect.quantizer.float_rewrites.apply import (
    constant_numbers,
    replace_constants,
    scaled_constants,
)

Array = NDArray[np.float64]
_TOLERANCE = 1e-9

Mixed = tuple[Mixable, Block, Array]
"""A block of a group, and the matrix that mixes its classes, in their order."""

Change = Callable[[Array, int], Array]
"""What becomes of fibres [..., channels] whose labels have this sign."""


def mix_channels(changes: Iterable[Mixed], ctx: QContext) -> int:
    """Multiply the channels of blocks by matrices, once the gains of their groups are 1; how many
    constants changed. A class is in one change at most.

    In the reals the function stays as it was. In floats every new constant is rounded once, after
    products in float64, and what is computed grows with the condition of the matrix, which is
    1 for a rotation. ValueError for a matrix that is not square, cannot be inverted or is none of
    those of its block, NotFiniteError where a constant would overflow; nothing is changed then.
    """
    arrays = mixed_constants(changes, ctx)
    replace_constants(arrays, ctx)
    return len(arrays)


def mixed_constants(
    changes: Iterable[Mixed], ctx: QContext
) -> Mapping[tuple[Operation, int], Array]:
    """What constant operands, by op and number, would be. ValueError as in `mix_channels`."""
    changes = list(changes)
    gains = {id(gain): gain for mixable, _, _ in changes for gain in mixable.gains}
    arrays = dict(scaled_constants([(gain.group, gain.factors) for gain in gains.values()], ctx))
    for mixable, block, matrix in changes:
        change_constants(arrays, mixable.group, block.classes, _mix(block, matrix), ctx)
    return arrays


def mixed_value(array: Array, labels: Labels, block: Block, matrix: Array) -> Array:
    """What a value with these labels would be; further dimensions come first."""
    return changed_value(array, labels, block.classes, _mix(block, matrix))


def _mix(block: Block, matrix: Array) -> Change:
    """Multiplication by the matrix; where labels are of the inverse factor, by its inverse,
    transposed."""
    size = len(block.classes)
    if matrix.shape != (size, size):
        raise ValueError(f"expects a matrix of {size} rows and columns")
    try:
        sides = {1: matrix, -1: np.linalg.inv(matrix).T.astype(np.float64)}
    except np.linalg.LinAlgError:
        raise ValueError("the matrix has no inverse") from None
    if block.matrices >= Matrices.ORTHOGONAL and np.abs(sides[1] - sides[-1]).max() > _TOLERANCE:
        raise ValueError("the matrix is not orthogonal")
    if block.matrices >= Matrices.KEEPING_ONES and np.abs(matrix.sum(1) - 1).max() > _TOLERANCE:
        raise ValueError("the matrix does not keep the vector of ones")
    return lambda fibres, sign: fibres @ sides[sign].T


def change_constants(
    arrays: dict[tuple[Operation, int], Array],
    group: ChannelGroup,
    block: Sequence[int],
    change: Change,
    ctx: QContext,
) -> None:
    """Note in `arrays` what constant operands, by op and number, would be after one more change: of
    the classes of a block of a group."""
    for absorber in group.absorbers:
        use = absorber.op, absorber.operand
        for term in absorber.terms:
            if np.isin(np.abs(term.labels), block).any():
                array = arrays.get(use)
                if array is None:
                    array = constant_numbers(use, ctx).astype(np.float64)
                arrays[use] = _changed(array, term, block, change)


def changed_value(array: Array, labels: Labels, block: Sequence[int], change: Change) -> Array:
    """What a value with these labels would be after a change of the classes of a block; further
    dimensions come first."""
    if not np.isin(np.abs(labels), block).any():
        return array
    return _changed(array, Term(labels, 1), block, change)


def _changed(array: Array, term: Term, block: Sequence[int], change: Change) -> Array:
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
        fibres[(*where, columns)] = change(fibres[where][..., columns], sign)
    return result
