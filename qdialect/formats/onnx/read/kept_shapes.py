"""The extents of results of nodes that stay nodes, by what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from qdialect.formats.onnx.read.extents import Extent, broadcast, clamped
from qdialect.formats.onnx.read.inferred_extents import target_extents
from qdialect.formats.onnx.read.node import Node
from qdialect.ops.shapes import ShapeError, normalize_axes

if TYPE_CHECKING:
    from qdialect.formats.onnx.read.symbols import Symbols

Extents = Sequence[Extent | None]
Rule = Callable[["Symbols", Node], "Extents | None"]

_ONE = Extent.of(1)


def _same(s: Symbols, node: Node) -> Extents | None:
    return s.extents(node.input(0))


def _broadcast(s: Symbols, node: Node) -> Extents | None:
    shapes = [s.extents(name) for name in node.inputs]
    known = [shape for shape in shapes if shape is not None]
    return broadcast(known) if len(known) == len(shapes) else None


def _range(s: Symbols, node: Node) -> Extents | None:
    """From 0 in steps of 1."""
    start, limit, step = (s.numbers(name) for name in node.inputs)
    if (
        start is None
        or limit is None
        or step is None
        or any(n.size != 1 for n in (start, limit, step))
    ):
        return None
    first, last, by = (n.reshape(-1)[0] for n in (start, limit, step))
    whole = first.number == 0 and by.number == 1 and (last.least or 0) >= 0
    return [last] if whole and last.least is not None else None


def _filled(s: Symbols, node: Node) -> Extents | None:
    shape = s.numbers(node.input(0))
    return None if shape is None else list(shape.reshape(-1))


def _expand(s: Symbols, node: Node) -> Extents | None:
    x, shape = s.extents(node.input(0)), s.numbers(node.input(1))
    return None if x is None or shape is None else broadcast([x, list(shape.reshape(-1))])


def _unsqueeze(s: Symbols, node: Node) -> Extents | None:
    x, axes = s.extents(node.input(0)), s.axes(node)
    if x is None or axes is None:
        return None
    rank = len(x) + len(axes)
    try:
        added = normalize_axes(axes, rank)
    except ShapeError:
        return None
    rest = iter(x)
    return [_ONE if d in added else next(rest) for d in range(rank)]


def _squeeze(s: Symbols, node: Node) -> Extents | None:
    x, axes = s.extents(node.input(0)), s.axes(node)
    if x is None or not axes:
        return None
    try:
        gone = normalize_axes(axes, len(x))
    except ShapeError:
        return None
    return [e for d, e in enumerate(x) if d not in gone]


def _gather(s: Symbols, node: Node) -> Extents | None:
    x, indices = s.extents(node.input(0)), s.extents(node.input(1))
    axis = node.get("axis", 0)
    if x is None or indices is None or not -len(x) <= axis < len(x):
        return None
    return [*x[: axis % len(x)], *indices, *x[axis % len(x) + 1 :]]


def _transpose(s: Symbols, node: Node) -> Extents | None:
    x = s.extents(node.input(0))
    if x is None:
        return None
    perm: tuple[int, ...] = node.get("perm", tuple(reversed(range(len(x)))))
    return [x[p] for p in perm] if sorted(perm) == list(range(len(x))) else None


def _reshape(s: Symbols, node: Node) -> Extents | None:
    x, shape = s.extents(node.input(0)), s.numbers(node.input(1))
    if x is None or shape is None:
        return None
    return target_extents(x, list(shape.reshape(-1)), bool(node.get("allowzero", 0)))


def _slice(s: Symbols, node: Node) -> Extents | None:
    """Whole dimensions, and the first elements of dimensions of known extent."""
    x = s.extents(node.input(0))
    if x is None or len(node.inputs) < 3:
        return None
    starts, ends = (s.numbers(name) for name in node.inputs[1:3])
    axes, steps = (s.static(node.input(i)) for i in (3, 4))
    if starts is None or ends is None or (node.input(3) and axes is None):
        return None
    places = range(starts.size) if axes is None else axes.reshape(-1).tolist()
    if node.input(4) and (steps is None or (steps != 1).any()):
        return None
    if not len(places) == starts.size == ends.size or any(
        not -len(x) <= a < len(x) for a in places
    ):
        return None
    result: list[Extent | None] = list(x)
    for axis, start, end in zip(places, starts.reshape(-1), ends.reshape(-1), strict=True):
        result[axis] = _taken(x[axis], start, end)
    return result


def _taken(whole: Extent, start: Extent, end: Extent) -> Extent | None:
    """How many elements `[start:end]` takes."""
    least = end.least
    if start.number != 0 or least is None or least < 0:
        return None
    beyond = (end - whole).least
    if (beyond is not None and beyond >= 0) or end.number == 2**63 - 1:
        return whole
    return None if whole.number is None else clamped(end, whole.number)


SHAPES: Mapping[str, Rule] = {
    **dict.fromkeys(
        (
            *(
                "Abs",
                "Cast",
                "Clip",
                "CumSum",
                "Neg",
                "Not",
                "ScatterElements",
                "ScatterND",
                "Sign",
            ),
            *("Trilu", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh"),
            *("Sign", "Acosh", "Atanh", "IsNaN", "LogSoftmax", "Mish", "Selu", "Celu", "Softsign"),
        ),
        _same,
    ),
    **dict.fromkeys(
        ("Add", "Sub", "Mul", "Div", "Mod", "And", "Or", "Xor", "Equal", "Less", "LessOrEqual"),
        _broadcast,
    ),
    **dict.fromkeys(("Greater", "GreaterOrEqual", "Where", "Pow", "Min", "Max"), _broadcast),
    "Range": _range,
    "ConstantOfShape": _filled,
    "Expand": _expand,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Gather": _gather,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Slice": _slice,
}
"""By op type."""
