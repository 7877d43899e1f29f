"""What integer arithmetic on shapes computes, in extents: `Concat(Shape(x)[0:1], [-1, 64])` is
`[batch, -1, 64]`.

Arrays hold `Extent`s, so that gathering, slicing, joining and reshaping are numpy's own; small ones
only.  None stands for what is not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from qdialect.plugins.common.extents import MOST, Extent, Numbers, integers, numbers, product
from qdialect.plugins.onnx.read.node import Node

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.symbols import Symbols

Function = Callable[["Symbols", Node], "Numbers | None"]


def slice_end(end: int, step: int) -> int:
    """The end of a slice as numpy takes it: the largest integers mean "as far as there is
    something", which is the beginning where steps are negative."""
    return -(2**63) if step < 0 and end in (2**31 - 1, 2**63 - 1) else end


def _shape(s: Symbols, node: Node) -> Numbers | None:
    extents = s.extents(node.input(0))
    if extents is None:
        return None
    start, end = node.get("start", 0), node.attributes.get("end")
    return numbers(list(extents)[slice(start, end)]).reshape(-1)


def _size(s: Symbols, node: Node) -> Numbers | None:
    extents = s.extents(node.input(0))
    return None if extents is None else numbers(product(extents))


def _alias(s: Symbols, node: Node) -> Numbers | None:
    return s.numbers(node.input(0))


def _cast(s: Symbols, node: Node) -> Numbers | None:
    return s.numbers(node.input(0)) if node.get("to", 0) in (6, 7) else None


def _gather(s: Symbols, node: Node) -> Numbers | None:
    x, at = s.numbers(node.input(0)), s.static(node.input(1))
    axis = node.get("axis", 0)
    if x is None or at is None or not -x.ndim <= axis < x.ndim:
        return None
    extent = x.shape[axis]
    if at.size and not -extent <= at.min() <= at.max() < extent:
        return None
    return np.asarray(np.take(x, at, axis), dtype=object)


def _slice(s: Symbols, node: Node) -> Numbers | None:
    x = s.numbers(node.input(0))
    lists = s.slice_lists(node)
    if x is None or lists is None:
        return None
    starts, ends, axes, steps = lists
    if any(not -x.ndim <= axis < x.ndim for axis in axes) or 0 in steps:
        return None
    taken = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        places = range(*slice(start, slice_end(end, step), step).indices(x.shape[axis]))
        stop = places.stop if places.stop >= 0 else None
        taken[axis] = slice(places.start, stop, step) if len(places) else slice(0)
    return x[tuple(taken)]


def _concat(s: Symbols, node: Node) -> Numbers | None:
    parts = [s.numbers(name) for name in node.inputs]
    known = [part for part in parts if part is not None]
    axis = node.get("axis", 0)
    if len(known) < len(parts) or any(p.ndim != known[0].ndim or not p.ndim for p in known):
        return None
    return np.concatenate(known, axis)


def _squeeze(s: Symbols, node: Node) -> Numbers | None:
    x, axes = s.numbers(node.input(0)), s.axes(node)
    return None if x is None or axes is None else np.squeeze(x, axes or None)


def _unsqueeze(s: Symbols, node: Node) -> Numbers | None:
    x, axes = s.numbers(node.input(0)), s.axes(node)
    return None if x is None or axes is None else np.expand_dims(x, axes)


def _reshape(s: Symbols, node: Node) -> Numbers | None:
    x, shape = s.numbers(node.input(0)), s.static(node.input(1))
    return (
        None if x is None or shape is None or 0 in shape else x.reshape(shape.reshape(-1).tolist())
    )


def _constant_of_shape(s: Symbols, node: Node) -> Numbers | None:
    shape, fill = s.static(node.input(0)), node.attributes.get("value")
    value = None if fill is None else s.array_of(fill)
    if shape is None or value is None or value.dtype.kind != "i" or value.size != 1:
        return None
    if shape.min(initial=0) < 0 or shape.max(initial=0) > MOST or shape.size > 1:
        return None
    return numbers(np.full(shape.reshape(-1), int(value.reshape(-1)[0])))


def _expand(s: Symbols, node: Node) -> Numbers | None:
    x, shape = s.numbers(node.input(0)), s.static(node.input(1))
    if x is None or shape is None or shape.size > 1 or shape.max(initial=0) > MOST:
        return None
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, shape.reshape(-1).tolist()))


def _elementwise(function: Callable[[Extent, Extent], Extent | None]) -> Function:
    def of_two(s: Symbols, node: Node) -> Numbers | None:
        if len(node.inputs) != 2:
            return None
        a, b = (s.numbers(name) for name in node.inputs)
        if a is None or b is None:
            return None
        a, b = np.broadcast_arrays(a, b)
        pairs = zip(a.reshape(-1), b.reshape(-1), strict=True)
        found = [function(x, y) for x, y in pairs]
        return None if None in found else numbers(found).reshape(a.shape)

    return of_two


def _divided(a: Extent, b: Extent) -> Extent | None:
    """Towards zero, as integers are."""
    x, y = a.number, b.number
    if x is not None and y is not None:
        return None if y == 0 else Extent.of(abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1))
    exact = a.over(b)
    return exact if exact is not None else a.made("div", b)


def _remainder(a: Extent, b: Extent) -> Extent | None:
    x, y = a.number, b.number
    if x is not None and y is not None:
        return Extent.of(x % y) if x >= 0 and y > 0 else None
    if y not in (None, 0) and a.over(b) is not None:
        return Extent.of(0)
    return a.made("mod", b)


def _smaller(a: Extent, b: Extent) -> Extent:
    return a if a == b else a.made("min", b)


def _larger(a: Extent, b: Extent) -> Extent:
    return a if a == b else a.made("max", b)


def _equal(a: Extent, b: Extent) -> Extent | None:
    """1 or 0; None where it depends on the run."""
    difference = a - b
    if (number := difference.number) is not None:
        return Extent.of(int(number == 0))
    apart = any((d.least or 0) > 0 for d in (difference, -difference))
    return Extent.of(0) if apart else None


def _negated(s: Symbols, node: Node) -> Numbers | None:
    x = s.numbers(node.input(0))
    return None if x is None else numbers([-value for value in x.reshape(-1)]).reshape(x.shape)


def _product(s: Symbols, node: Node) -> Numbers | None:
    x, axes = s.numbers(node.input(0)), s.axes(node)
    if x is None or x.ndim != 1 or axes is None or axes not in ((), (0,), (-1,)):
        return None
    total = numbers(product(tuple(x)))
    return total.reshape(1) if node.get("keepdims", 1) == 1 else total


def _where(s: Symbols, node: Node) -> Numbers | None:
    if len(node.inputs) != 3:
        return None
    condition, a, b = (s.numbers(name) for name in node.inputs)
    if condition is None or a is None or b is None:
        return None
    decided = integers(condition)
    return None if decided is None else np.where(decided != 0, a, b)


FUNCTIONS: Mapping[str, Function] = {
    "Shape": _shape,
    "Size": _size,
    "Identity": _alias,
    "Cast": _cast,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Add": _elementwise(lambda a, b: a + b),
    "Sub": _elementwise(lambda a, b: a - b),
    "Mul": _elementwise(lambda a, b: a * b),
    "Div": _elementwise(_divided),
    "Mod": _elementwise(_remainder),
    "Min": _elementwise(_smaller),
    "Max": _elementwise(_larger),
    "Equal": _elementwise(_equal),
    "Neg": _negated,
    "ReduceProd": _product,
    "Where": _where,
}
"""What each of these ops computes; other ops are not followed."""
