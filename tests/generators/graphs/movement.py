"""Ops of a random graph that move elements (`random_onnx`)."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.generators.graphs.maker import Rejected

if TYPE_CHECKING:
    from tests.generators.graphs.maker import GraphMaker

ANY = (np.float32,) * 4 + (np.int8, np.uint8, np.int64, np.int32, np.bool_)
"""The types of tensors that are moved, floats mostly."""


def reshape(g: GraphMaker, kind: str) -> None:
    x = g.pick(ANY)
    size, target = x.array.size, list[int]()
    while size > 1 and g.chance(0.8):
        part = g.random.choice([d for d in range(1, size + 1) if size % d == 0])
        target.append(part)
        size //= part
    target.append(size)
    if g.chance(0.4):
        target[g.random.randrange(len(target))] = -1
    if x.shape and g.chance(0.3):
        target = [0, -1] if g.chance(0.5) else [-1, *x.shape[1:]]
    extra = {"allowzero": 1} if g.opset >= 14 and g.chance(0.1) else {}
    g.apply(kind, [x.name, g.constant(target, np.int64)], **extra)


def expand(g: GraphMaker, kind: str) -> None:
    x = g.pick(ANY)
    target = [n if n != 1 or g.chance(0.5) else 3 for n in x.shape]
    target = [2] * g.random.choice((0, 0, 1)) + target
    if kind == "Tile":
        target = [g.random.choice((1, 1, 2, 0 if g.chance(0.05) else 1)) for _ in x.shape]
    g.apply(kind, [x.name, g.constant(target, np.int64)])


def slice_(g: GraphMaker, kind: str) -> None:
    x = g.pick(ANY, lambda a: a.ndim > 0)
    axes = g.random.sample(range(len(x.shape)), g.random.randint(1, len(x.shape)))
    steps = [g.random.choice((1, 1, 1, 2, -1, -2)) for _ in axes]
    bounds = (0, 0, 1, 2, -1, -2, 2**31 - 1, -(2**31), 2**63 - 1)
    # Backwards, runtimes do not agree on what is far outside.
    starts, ends = ([g.random.choice(bounds[: 9 if s > 0 else 6]) for s in steps] for _ in range(2))
    if g.chance(0.6):
        starts, ends = [0 if s > 0 else -1 for s in steps], [9 if s > 0 else -99 for s in steps]
    dtype = np.int64 if any(abs(n) > 2**31 - 1 for n in (*starts, *ends)) else np.int32
    inputs = [starts, ends] + ([axes, steps] if g.chance(0.8) else [axes])
    g.apply(kind, [x.name, *(g.constant(np.array(v, np.int64), dtype) for v in inputs)])


def pad(g: GraphMaker, kind: str) -> None:
    x = g.pick((np.float32,) * 3 + (np.int8, np.uint8))
    rank = len(x.shape)
    pads = [g.random.choice((0, 0, 1, 2, -1)) for _ in range(2 * rank)]
    inputs = [x.name, g.constant(pads, np.int64)]
    if g.chance(0.5):
        inputs.append(g.constant(g.array([], x.array.dtype)))
    modes = ("constant", "constant", "edge", "reflect")
    g.apply(kind, inputs, mode=g.random.choice(modes))


def gather(g: GraphMaker, kind: str) -> None:
    x = g.pick(ANY, lambda a: a.ndim > 0)
    axis = g.random.randrange(-len(x.shape), len(x.shape))
    limit = x.shape[axis]
    shape = g.random.choice(((), (1,), (2,), (2, 2), (0,)))
    if kind == "GatherElements":
        shape = x.shape
    low = -limit if g.chance(0.3) else 0
    if not limit and np.prod(shape):
        raise Rejected("empty")
    indices = g.numbers.integers(low, max(limit, 1), shape)
    g.apply(kind, [x.name, g.constant(indices, np.int64)], axis=axis)


def scatter(g: GraphMaker, kind: str) -> None:
    x = g.pick(fits=lambda a: a.ndim > 0 and a.size > 0)
    if kind == "ScatterND":
        rows = g.numbers.integers(0, x.shape[0], (g.random.choice((1, 2)), 1))
        inputs = [g.constant(rows, np.int64), g.constant(g.array((len(rows), *x.shape[1:])))]
        g.apply(kind, [x.name, *inputs])
        return
    axis = g.random.randrange(len(x.shape))
    indices = g.numbers.integers(0, x.shape[axis], [min(n, 2) for n in x.shape])
    other = g.constant(g.array(indices.shape))
    g.apply(kind, [x.name, g.constant(indices, np.int64), other], axis=axis)


def concat(g: GraphMaker, kind: str) -> None:
    x = g.pick(ANY, lambda a: a.ndim > 0)
    axis = g.random.randrange(len(x.shape))
    names = [x.name]
    for _ in range(g.random.choice((0, 1, 1, 2))):

        def fits(a: np.ndarray) -> bool:
            same = (i == axis or a.shape[i] == n for i, n in enumerate(x.shape))
            return a.ndim == len(x.shape) and all(same)

        names.append(g.pick((x.array.dtype,), fits).name)
    g.apply(kind, names, axis=axis if g.chance(0.7) else axis - len(x.shape))


def split(g: GraphMaker, kind: str) -> None:
    x = g.pick(ANY, lambda a: a.ndim > 0)
    axis = g.random.randrange(len(x.shape))
    first = g.random.randint(0, x.shape[axis])
    sizes = [first, x.shape[axis] - first]
    if g.opset < 13:
        g.apply(kind, [x.name], 2, axis=axis, split=sizes)
    else:
        g.apply(kind, [x.name, g.constant(sizes, np.int64)], 2, axis=axis)


def resize(g: GraphMaker, kind: str) -> None:
    x = g.pick((np.float32,) * 3 + (np.int8, np.uint8), lambda a: a.ndim in (3, 4) and a.size > 0)
    factors = [1.0, 1.0] + [g.random.choice((0.5, 1.0, 2.0, 1.5)) for _ in x.shape[2:]]
    inputs = [x.name, "", g.constant(factors, np.float32)]
    if g.chance(0.4):
        sizes = [*x.shape[:2], *(g.random.choice((1, n, 2 * n)) for n in x.shape[2:])]
        inputs = [x.name, "", "", g.constant(sizes, np.int64)]
    ways = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    attributes: dict[str, Any] = {"coordinate_transformation_mode": g.random.choice(ways)}
    attributes["mode"] = g.random.choice(("nearest", "linear", "cubic"))
    if attributes["mode"] == "nearest":
        rounds = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        attributes["nearest_mode"] = g.random.choice(rounds)
    g.apply(kind, inputs, **attributes)


MOVEMENT: dict[str, tuple[float, Callable[[Any, str], None]]] = {
    "Reshape": (4.0, reshape),
    **dict.fromkeys(("Expand", "Tile"), (1.5, expand)),
    "Slice": (4.0, slice_),
    "Pad": (3.0, pad),
    **dict.fromkeys(("Gather", "GatherElements"), (1.5, gather)),
    **dict.fromkeys(("ScatterND", "ScatterElements"), (1.0, scatter)),
    "Concat": (4.0, concat),
    "Split": (2.0, split),
    "Resize": (2.0, resize),
}
