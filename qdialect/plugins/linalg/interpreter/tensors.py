"""Ops of `tensor`: making tensors, and moving elements.

`tensor.empty` holds zeros: what it holds is not said, so nothing may depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, DenseArrayBase, IntegerAttr
from xdsl.ir import Operation

from qdialect.errors import InputError
from qdialect.interpreter.values import Array, Evaluation, Kernel, declared_shape
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.plugins.linalg.interpreter.bodies import element, one_block, run_body


def _listed(op: Operation, name: str) -> list[int]:
    found = op.properties[name]
    assert isinstance(found, DenseArrayBase)
    return [int(n) for n in cast("Any", found).get_values()]


def _mixed(static: Sequence[int], given: Sequence[Array]) -> list[int]:
    """Numbers of an attribute, with operands where it has none."""
    left = iter(given)
    return [int(next(left)) if n == DYNAMIC_INDEX else n for n in static]


def _segments(op: Operation, operands: Sequence[Array], fixed: int) -> list[Sequence[Array]]:
    """The groups of operands after the first `fixed` ones."""
    groups: list[Sequence[Array]] = []
    start = fixed
    for size in _listed(op, "operandSegmentSizes")[fixed:]:
        groups.append(operands[start : start + size])
        start += size
    return groups


def _empty(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    kind, sizes = op.results[0].type, iter(operands)
    shape = [int(next(sizes)) if n == DYNAMIC else int(n) for n in declared_shape(kind)]
    return [np.zeros(shape, evaluation.dtype(kind))]


def _splat(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    (empty,) = _empty(op, operands[1:], evaluation)
    return [np.full_like(empty, operands[0])]


def _from_elements(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    kind = op.results[0].type
    shape = [int(n) for n in declared_shape(kind)]
    return [np.array([x[()] for x in operands], evaluation.dtype(kind)).reshape(shape)]


def _cast(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [operands[0]]


def _dim(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    dimension, shape = int(operands[1]), operands[0].shape
    if not 0 <= dimension < len(shape):
        raise InputError(f"a tensor of rank {len(shape)} has no dimension {dimension}")
    return [np.asarray(shape[dimension], np.int64)]


def _extract(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [element(operands[0], operands[1:])]


def _insert(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    scalar, tensor, *indices = operands
    element(tensor, indices)
    result = np.array(tensor)
    result[tuple(indices)] = scalar
    return [result]


def _collapse(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    groups, extents = cast("ArrayAttr[Any]", op.properties["reassociation"]), operands[0].shape
    shape = [prod(extents[d.value.data] for d in group) for group in groups]
    return [operands[0].reshape(shape)]


def _expand(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    shape = _mixed(_listed(op, "static_output_shape"), operands[1:])
    return [_reshaped(operands[0], shape)]


def _reshape(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [_reshaped(operands[0], operands[1].tolist())]


def _reshaped(array: Array, shape: Sequence[int]) -> Array:
    if prod(shape) != array.size:
        raise InputError(
            f"{list(array.shape)} does not have the elements of {list(shape)}", code="bad-shape"
        )
    return array.reshape(shape)


def _concat(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.concatenate(operands, cast("IntegerAttr[Any]", op.properties["dim"]).value.data)]


def _pad(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """What the region yields around the operand."""
    lows, highs = _segments(op, operands, 1)
    low, high = _mixed(_listed(op, "static_low"), lows), _mixed(_listed(op, "static_high"), highs)
    source = operands[0]
    if any(n < 0 for n in (*low, *high)):
        raise InputError("pads are not negative", code="bad-shape")
    shape = [n + a + b for n, a, b in zip(source.shape, low, high, strict=True)]
    places = list(np.indices(shape, np.int64, sparse=True))
    (around,) = run_body(one_block(op.regions[0]), places, places, evaluation)
    result = np.array(np.broadcast_to(around, shape), source.dtype)
    result[tuple(slice(a, a + n) for a, n in zip(low, source.shape, strict=True))] = source
    return [result]


def _window(
    op: Operation, groups: Sequence[Sequence[Array]], shape: Sequence[int]
) -> tuple[tuple[slice, ...], list[int]]:
    """Where a slice is in a tensor of `shape`, and its extents; InputError (`bad-index`)."""
    names = ("static_offsets", "static_sizes", "static_strides")
    starts, sizes, steps = (
        _mixed(_listed(op, name), given) for name, given in zip(names, groups, strict=True)
    )
    slices: list[slice] = []
    for start, size, step, extent in zip(starts, sizes, steps, shape, strict=True):
        last = start + (size - 1) * step
        if size and not (0 <= start < extent and 0 <= last < extent and step > 0):
            raise InputError(
                f"a slice from {start} to {last} leaves a dimension of {extent}", code="bad-index"
            )
        slices.append(slice(start, start + size * step, step) if size else slice(0, 0))
    return tuple(slices), sizes


def _extract_slice(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    """A box of elements; of an extent of 1 the dimension may be left out."""
    source = operands[0]
    where, sizes = _window(op, _segments(op, operands, 1), source.shape)
    declared = declared_shape(op.results[0].type)
    if len(declared) == len(sizes):
        return [source[where]]
    known = [n for n in declared if n != DYNAMIC]
    if len(known) == len(declared):
        return [source[where].reshape([int(n) for n in declared])]
    return [source[where].reshape([n for n in sizes if n != 1])]


def _insert_slice(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    source, target = operands[:2]
    where, sizes = _window(op, _segments(op, operands, 2), target.shape)
    result = np.array(target)
    result[where] = _reshaped(source, sizes)
    return [result]


KERNELS: Mapping[str, Kernel] = {
    "tensor.empty": _empty,
    "tensor.splat": _splat,
    "tensor.from_elements": _from_elements,
    "tensor.cast": _cast,
    "tensor.dim": _dim,
    "tensor.extract": _extract,
    "tensor.insert": _insert,
    "tensor.collapse_shape": _collapse,
    "tensor.expand_shape": _expand,
    "tensor.reshape": _reshape,
    "tensor.concat": _concat,
    "tensor.pad": _pad,
    "tensor.extract_slice": _extract_slice,
    "tensor.insert_slice": _insert_slice,
}
