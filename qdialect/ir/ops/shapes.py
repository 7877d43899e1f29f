"""Shape inference on plain tuples; `DYNAMIC` (-1) marks an unknown dimension."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from qdialect.ir.behaviors.shapes import DYNAMIC, Shape


class ShapeError(ValueError):
    """Shapes or properties that do not fit; the text completes "'nn.x' op ..."."""


def compatible(declared: Shape, inferred: Shape) -> bool:
    """Whether a declared result shape may stand for an inferred one: same rank,
    and no static extent contradicts another."""
    return len(declared) == len(inferred) and all(
        a == b or DYNAMIC in (a, b) for a, b in zip(declared, inferred, strict=True)
    )


def require_rank(shape: Shape, rank: int, what: str) -> None:
    """ShapeError for a shape of another rank."""
    if len(shape) != rank:
        raise ShapeError(f"expects {what} of rank {rank}, but got rank {len(shape)}")


def normalize_axis(axis: int, rank: int, *, past_end: bool = False) -> int:
    """`axis` in [0, rank), negative counted from the end; ShapeError outside."""
    limit = rank + 1 if past_end else rank
    if not -rank <= axis < limit:
        raise ShapeError(f"axis {axis} is outside rank {rank}")
    return axis + rank if axis < 0 else axis


def normalize_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """`axes` in [0, rank), in ascending order; ShapeError outside or when given twice."""
    normalized = sorted(normalize_axis(axis, rank) for axis in axes)
    if len(set(normalized)) != len(normalized):
        raise ShapeError(f"axes {list(axes)} name a dimension twice")
    return tuple(normalized)


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Numpy broadcasting. A dynamic extent meets 1 or itself as dynamic, and a
    static extent > 1 as that extent."""
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[int] = []
    for position in range(-rank, 0):
        extents = {s[position] for s in shapes if len(s) >= -position}
        static = {e for e in extents if e not in (1, DYNAMIC)}
        if len(static) > 1:
            raise ShapeError(f"cannot broadcast extents {sorted(static)}")
        if static:
            result.append(static.pop())
        else:
            result.append(DYNAMIC if DYNAMIC in extents else 1)
    return tuple(result)


def window_extent(
    size: int, kernel: int, stride: int, before: int, after: int, dilation: int, ceil: bool = False
) -> int:
    """Output extent of a sliding window along one dimension.

    floor or ceil of (size + before + after - dilation*(kernel-1) - 1) / stride,
    plus 1; with `ceil`, a last window that would start in the trailing padding
    is dropped, and one that is wider than the input counts (ONNX, PyTorch).
    """
    if size == DYNAMIC:
        return DYNAMIC
    span = size + before + after - dilation * (kernel - 1) - 1
    if span <= (-stride if ceil else -1):
        raise ShapeError(
            f"window of {dilation * (kernel - 1) + 1} does not fit an extent of "
            f"{size} padded by {before} and {after}"
        )
    return windows_along(size, kernel, stride, before, after, dilation, ceil)


def windows_along(
    size: int, kernel: int, stride: int, before: int, after: int, dilation: int, ceil: bool
) -> int:
    """The same as ONNX Runtime counts the windows of a pool, which may be wider than the padded
    extent: quotients below 0 are rounded up whatever the mode is."""
    span = size + before + after - dilation * (kernel - 1) - 1
    count = (span // stride if span >= 0 and not ceil else -(-span // stride)) + 1
    return count - 1 if ceil and (count - 1) * stride >= size + before else count


def window_shape(
    spatial: Shape,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    ceil: bool = False,
) -> Shape:
    """`window_extent` per spatial dimension; `pads` lists all begins, then all ends."""
    rank = len(spatial)
    _check_lists(rank, kernel=kernel, strides=strides, pads=pads, dilations=dilations)
    return tuple(
        window_extent(
            spatial[d], kernel[d], strides[d], pads[d], pads[d + rank], dilations[d], ceil
        )
        for d in range(rank)
    )


def transposed_shape(
    spatial: Shape,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int],
) -> Shape:
    """Extents of which a window with these properties would take every step of `spatial`,
    `output_padding` added."""
    rank = len(spatial)
    _check_lists(rank, kernel=kernel, strides=strides, pads=pads, dilations=dilations)
    _check_lists(rank, output_padding=output_padding)
    result: list[int] = []
    for d in range(rank):
        if spatial[d] == DYNAMIC:
            result.append(DYNAMIC)
            continue
        reach = (spatial[d] - 1) * strides[d] + dilations[d] * (kernel[d] - 1) + 1
        extent = reach + output_padding[d] - pads[d] - pads[d + rank]
        if spatial[d] == 0 or extent < 1:
            raise ShapeError(
                f"pads {pads[d]} and {pads[d + rank]} leave nothing of an extent of {spatial[d]}"
            )
        if extent >= 2**63:
            raise ShapeError(f"gives an extent of {extent}, which needs more than 64 bits")
        result.append(extent)
    return tuple(result)


def _check_lists(rank: int, **lists: Sequence[int]) -> None:
    """Lists of a window op have the length and the least values they must have."""
    for name, values in lists.items():
        count = 2 * rank if name == "pads" else rank
        if len(values) != count:
            raise ShapeError(f"{name} must list {count} integers, but lists {len(values)}")
        floor = 0 if "pad" in name else 1
        if min(values) < floor:
            raise ShapeError(f"{name} must be at least {floor}, but are {list(values)}")


def reshape(shape: Shape, target: Sequence[int]) -> Shape:
    """ONNX Reshape: 0 copies the extent at the same position, one -1 is inferred.

    A copied dynamic extent stays dynamic and cancels from the element count.
    """
    if list(target).count(DYNAMIC) > 1 or min((0, *target)) < DYNAMIC:
        raise ShapeError(f"cannot reshape to {list(target)}")
    copies = [p for p, extent in enumerate(target) if extent == 0]
    if copies and copies[-1] >= len(shape):
        raise ShapeError(f"shape {list(target)} copies a dimension that does not exist")
    result = [shape[p] if p in copies else extent for p, extent in enumerate(target)]
    source = [e for p, e in enumerate(shape) if p not in copies]
    counted = [e for p, e in enumerate(target) if p not in copies]
    if DYNAMIC in source:
        return tuple(result)
    total, known = prod(source), prod(e for e in counted if e != DYNAMIC)
    if DYNAMIC in counted:
        if known == 0 or total % known:
            raise ShapeError(f"cannot reshape {list(shape)} to {list(target)}")
        result[list(target).index(DYNAMIC)] = total // known
    elif total != known:
        raise ShapeError(
            f"cannot reshape {list(shape)} to {list(target)}: {total} elements against {known}"
        )
    return tuple(result)


def slice_extent(size: int, start: int, stop: int, step: int) -> int:
    """Number of elements `start:stop:step` takes (numpy rules; stop may be INT64_MAX)."""
    if step == 0:
        raise ShapeError("slice step must not be 0")
    if size == DYNAMIC:
        return DYNAMIC
    return len(range(*slice_bounds(size, start, stop, step)))


def slice_bounds(size: int, start: int, stop: int, step: int) -> tuple[int, int, int]:
    """`start:stop:step` clamped to an extent, as Python `range` arguments.

    ONNX and numpy agree except that ONNX writes "past the beginning" (negative
    step) as a stop of INT64_MIN or below -size, which numpy also clamps.
    """
    return slice(start, stop, step).indices(size)
