"""Products, convolutions and the linear algebra of StableHLO.

Sums of floats are added up in f64 and rounded once; sums of integers wrap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from qdialect.errors import InputError, UnsupportedError
from qdialect.interpreter.values import Array
from qdialect.plugins.stablehlo.dialect.attributes import ConvolutionDimensionsAttr, RecordAttr
from qdialect.plugins.stablehlo.interpreter.call import Call, Function, as_numbers, is_integer
from qdialect.plugins.stablehlo.interpreter.movement import padded


def _wide(call: Call, operands: Sequence[Array]) -> list[Array]:
    """Operands in the widest numbers of their kind."""
    wide: list[Array] = []
    for x, kind in zip(operands, call.operand_types, strict=True):
        values = as_numbers(x, kind)
        to = {"f": np.float64, "c": np.complex128, "u": np.uint64}.get(values.dtype.kind, np.int64)
        wide.append(values.astype(to))
    if any(w.dtype.kind == "f" for w in wide):
        wide = [w.astype(np.float64) if w.dtype.kind != "c" else w for w in wide]
    return wide


def _result(call: Call, value: Array) -> Array:
    if value.dtype.kind == "f" and is_integer(call.result_types[0]):
        value = np.rint(value).astype(np.int64)
    return call.stored(value)


def _dims(call: Call, name: str) -> tuple[int, ...]:
    found = call.require("dot_dimension_numbers")
    numbers: Mapping[str, Any] = found.values if isinstance(found, RecordAttr) else {}
    return cast("tuple[int, ...]", numbers[name])


def product(
    lhs: Array,
    rhs: Array,
    batch: tuple[Sequence[int], Sequence[int]],
    contracting: tuple[Sequence[int], Sequence[int]],
) -> Array:
    """Batches first, then what is left of the left factor, then of the right one."""
    sides: list[Array] = []
    rest: list[tuple[int, ...]] = []
    for index, x in enumerate((lhs, rhs)):
        taken = {*batch[index], *contracting[index]}
        free = [d for d in range(x.ndim) if d not in taken]
        rest.append(tuple(x.shape[d] for d in free))
        order = [*batch[index], *(free if index == 0 else []), *contracting[index]]
        order += free if index else []
        batches = tuple(x.shape[d] for d in batch[index])
        inner = int(np.prod([x.shape[d] for d in contracting[index]], dtype=np.int64))
        outer = int(np.prod(rest[-1], dtype=np.int64))
        matrix = (outer, inner) if index == 0 else (inner, outer)
        sides.append(x.transpose(order).reshape((*batches, *matrix)))
    batches = tuple(lhs.shape[d] for d in batch[0])
    return np.matmul(*sides).reshape((*batches, *rest[0], *rest[1]))


def _dot_general(call: Call, operands: Sequence[Array]) -> list[Array]:
    lhs, rhs = _wide(call, operands)
    batch = (_dims(call, "lhs_batching_dimensions"), _dims(call, "rhs_batching_dimensions"))
    contracting = (
        _dims(call, "lhs_contracting_dimensions"),
        _dims(call, "rhs_contracting_dimensions"),
    )
    return [_result(call, product(lhs, rhs, batch, contracting))]


def _dot(call: Call, operands: Sequence[Array]) -> list[Array]:
    lhs, rhs = _wide(call, operands)
    return [_result(call, product(lhs, rhs, ((), ()), ((lhs.ndim - 1,), (0,))))]


def _convolution(call: Call, operands: Sequence[Array]) -> list[Array]:
    x, w = _wide(_of_two(call), operands[:2])
    found = call.require("dimension_numbers")
    if not isinstance(found, ConvolutionDimensionsAttr):
        raise InputError(f"'{call.name}' op has no dimension numbers", code="bad-op")
    layouts = found.data
    names = sorted((n for n in layouts[0] if n.isdigit()), key=int)
    rank = len(names)
    x = x.transpose([layouts[0].index(n) for n in ("b", "f", *names)])
    w = w.transpose([layouts[1].index(n) for n in ("o", "i", *names)])
    ones = (1,) * rank
    strides, base = call.ints("window_strides", ones), call.ints("lhs_dilation", ones)
    dilation = call.ints("rhs_dilation", ones)
    reversal = call.ints("window_reversal", (0,) * rank)
    padding = call.pairs("padding", rank)
    if len(operands) > 2:
        padding = np.asarray(operands[2], np.int64).reshape(rank, 2)
    w = np.flip(w, tuple(d + 2 for d, flipped in enumerate(reversal) if flipped))
    zero = np.zeros((), x.dtype)
    low, high = ([0, 0, *(int(v) for v in padding[:, side])] for side in (0, 1))
    x = padded(x, zero, low, high, [0, 0, *(n - 1 for n in base)])
    groups, batches = call.integer("feature_group_count", 1), call.integer("batch_group_count", 1)
    # In groups of the batch, each part meets its share of the output features.
    parts = np.split(x, batches, 0) if batches > 1 else np.split(x, groups, 1)
    shares = np.split(w, len(parts), 0)
    pieces = [
        _windows(part, share, strides, dilation) for part, share in zip(parts, shares, strict=True)
    ]
    y = np.concatenate(pieces, 1)
    roles = ("b", "f", *names)
    return [_result(call, y.transpose([roles.index(n) for n in layouts[2]]))]


def _of_two(call: Call) -> Call:
    return Call(call.op, call.operand_types[:2], call.result_types, call.evaluation)


def _windows(x: Array, w: Array, strides: Sequence[int], dilation: Sequence[int]) -> Array:
    """[N, C, ...] with [O, C, ...]: a sum over the kernel's positions, one after the other."""
    spatial = range(len(strides))
    reach = [(w.shape[d + 2] - 1) * dilation[d] + 1 for d in spatial]
    extents = [max((x.shape[d + 2] - reach[d]) // strides[d] + 1, 0) for d in spatial]
    y = np.zeros((x.shape[0], w.shape[0], *extents), x.dtype)
    if not y.size:
        return y
    for place in np.ndindex(*w.shape[2:]):
        first = [place[d] * dilation[d] for d in spatial]
        where = tuple(
            slice(first[d], first[d] + (extents[d] - 1) * strides[d] + 1, strides[d])
            for d in spatial
        )
        columns = x[(slice(None), slice(None), *where)]
        kernel = w[(slice(None), slice(None), *place)]
        y += np.moveaxis(np.tensordot(kernel, columns, ((1,), (1,))), 0, 1)
    return y


def _fft(call: Call, operands: Sequence[Array]) -> list[Array]:
    (x,), lengths = operands, call.ints("fft_length")
    axes = tuple(range(x.ndim - len(lengths), x.ndim))
    kind = call.word("fft_type")
    functions = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn}
    function = functions.get(kind, np.fft.irfftn)
    return [call.stored(function(x, lengths, axes))]


def _triangular_solve(call: Call, operands: Sequence[Array]) -> list[Array]:
    a, b = _wide(call, operands)
    lower, unit = call.flag("lower"), call.flag("unit_diagonal")
    a = np.tril(a) if lower else np.triu(a)
    if unit:
        size = a.shape[-1]
        a = np.where(np.eye(size, dtype=bool), np.ones((), a.dtype), a)
    how = call.word("transpose_a")
    if how != "NO_TRANSPOSE":
        a = np.swapaxes(a, -1, -2)
    if how == "ADJOINT":
        a = np.conj(a)
    if call.flag("left_side"):
        return [call.stored(np.linalg.solve(a, b))]
    solved = np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2))
    return [call.stored(np.swapaxes(solved, -1, -2))]


def _cholesky(call: Call, operands: Sequence[Array]) -> list[Array]:
    (a,) = _wide(call, operands)
    lower = call.flag("lower")
    triangle = np.tril(a, -1) if lower else np.conj(np.swapaxes(np.triu(a, 1), -1, -2))
    diagonal = np.real(np.diagonal(a, axis1=-2, axis2=-1))
    whole = triangle + np.conj(np.swapaxes(triangle, -1, -2))
    whole = whole + diagonal[..., None] * np.eye(a.shape[-1])
    try:
        factor = np.linalg.cholesky(whole)
    except np.linalg.LinAlgError:
        raise InputError(f"'{call.name}' op has no positive definite operand") from None
    return [call.stored(factor if lower else np.conj(np.swapaxes(factor, -1, -2)))]


def _ragged_dot(call: Call, operands: Sequence[Array]) -> list[Array]:
    """Rows of the left factor belong to groups one after the other, each with a matrix."""
    lhs, rhs, sizes = operands
    numbers = str(call.attribute("ragged_dot_dimension_numbers"))
    if lhs.ndim != 2 or rhs.ndim != 3 or "lhs_ragged_dimensions = [0]" not in numbers:
        raise UnsupportedError(f"'{call.name}' with {numbers} is not computed")
    x, w = _wide(_of_two(call), (lhs, rhs))
    result = np.zeros((lhs.shape[0], rhs.shape[2]), x.dtype)
    first = 0
    for group, size in enumerate(sizes.tolist()):
        result[first : first + size] = x[first : first + size] @ w[group]
        first += size
    return [_result(call, result)]


FUNCTIONS: dict[str, Function] = {
    "cholesky": _cholesky,
    "convolution": _convolution,
    "dot": _dot,
    "dot_general": _dot_general,
    "dynamic_conv": _convolution,
    "fft": _fft,
    "triangular_solve": _triangular_solve,
}
"""By name, without the dialect."""

CHLO: dict[str, Function] = {"ragged_dot": _ragged_dot}
