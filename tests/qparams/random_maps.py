"""Random index maps with operand shapes, one generator per operation."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod

from qdialect.algebra.qparams import Shape
from qdialect.algebra.qparams.maps import (
    Broadcast,
    Concat,
    DepthToSpace,
    First,
    Flatten,
    Flip,
    Gather,
    Im2col,
    IndexMap,
    Insert,
    Pad,
    RepeatInterleave,
    Reshape,
    ResizeNearest,
    Select,
    Slice,
    SpaceToDepth,
    Squeeze,
    Take,
    Tile,
    Transpose,
    Unsqueeze,
)

Case = tuple[IndexMap, list[Shape]]


def random_shape(rng: random.Random, low: int = 1, high: int = 4, most: int = 72) -> Shape:
    while True:
        shape = tuple(rng.choice((1, 2, 2, 3, 4, 4, 6, 8)) for _ in range(rng.randint(low, high)))
        if prod(shape) <= most:
            return shape


def factorization(rng: random.Random, number: int) -> Shape:
    """Random dimensions with `number` elements."""
    dims: list[int] = []
    while number > 1 and len(dims) < 4:
        divisor = rng.choice([d for d in range(1, number + 1) if number % d == 0])
        dims.append(divisor)
        number //= divisor
    dims.append(number)
    rng.shuffle(dims)
    return tuple(dims)


def reshape(rng: random.Random) -> Case:
    shape = random_shape(rng)
    return Reshape(factorization(rng, prod(shape))), [shape]


def grouped_reshape(rng: random.Random) -> Case:
    source: list[int] = []
    target: list[int] = []
    groups: list[tuple[int, int]] = []
    for _ in range(rng.randint(1, 3)):
        part = random_shape(rng, 1, 2, 8)
        new = factorization(rng, prod(part))
        source += part
        target += new
        groups.append((len(part), len(new)))
    return Reshape(tuple(target), tuple(groups)), [tuple(source)]


def squeeze(rng: random.Random) -> Case:
    shape = random_shape(rng)
    ones = [k for k, size in enumerate(shape) if size == 1]
    return Squeeze(tuple(sorted(rng.sample(ones, rng.randint(0, len(ones)))))), [shape]


def unsqueeze(rng: random.Random) -> Case:
    shape = random_shape(rng, 0, 3)
    new = rng.randint(1, 2)
    return Unsqueeze(tuple(rng.sample(range(len(shape) + new), new))), [shape]


def flatten(rng: random.Random) -> Case:
    shape = random_shape(rng)
    start = rng.randrange(len(shape))
    return Flatten(start, rng.randint(start + 1, len(shape))), [shape]


def transpose(rng: random.Random) -> Case:
    shape = random_shape(rng, 0, 4)
    return Transpose(tuple(rng.sample(range(len(shape)), len(shape)))), [shape]


def slice_(rng: random.Random) -> Case:
    shape = random_shape(rng)
    bounds: list[tuple[int | None, int | None, int]] = []
    for size in shape:
        if rng.random() < 0.4:
            bounds.append((None, None, rng.choice((1, 1, -1))))
            continue
        start = rng.choice((None, *range(-size, size)))
        stop = rng.choice((None, *range(-size, size + 1)))
        bounds.append((start, stop, rng.choice((1, 1, 2, 3, -1, -2))))
    return Slice(*zip(*bounds, strict=True)), [shape]


def concat(rng: random.Random) -> Case:
    shape = random_shape(rng, 1, 3, 24)
    axis = rng.randrange(len(shape))
    sizes = [rng.choice((0, 1, 2, 4, shape[axis], shape[axis])) for _ in range(rng.randint(1, 3))]
    if not any(sizes):
        sizes[0] = shape[axis]
    return Concat(axis), [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]


def flip(rng: random.Random) -> Case:
    shape = random_shape(rng)
    return Flip(tuple(rng.sample(range(len(shape)), rng.randint(0, len(shape))))), [shape]


def tile(rng: random.Random) -> Case:
    shape = random_shape(rng, 1, 3, 24)
    return Tile(tuple(rng.choice((1, 1, 2, 3)) for _ in shape)), [shape]


def repeat_interleave(rng: random.Random) -> Case:
    shape = random_shape(rng, 1, 3, 24)
    return RepeatInterleave(tuple(rng.choice((1, 1, 2, 3)) for _ in shape)), [shape]


def broadcast(rng: random.Random) -> Case:
    shape = random_shape(rng, 0, 3, 24)
    target = tuple(rng.choice((1, 2, 3)) if size == 1 else size for size in shape)
    return Broadcast((*random_shape(rng, 0, 1, 4), *target)), [shape]


def take(rng: random.Random) -> Case:
    shape = random_shape(rng)
    axis = rng.randrange(len(shape))
    size = shape[axis]
    if rng.random() < 0.3:
        return Take(axis, tuple(rng.sample(range(size), size))), [shape]
    count = rng.choice((0, 1, 2, 4, 6))
    return Take(axis, tuple(rng.randrange(-size, size) for _ in range(count))), [shape]


def gather(rng: random.Random) -> Case:
    shape = random_shape(rng, 1, 3, 36)
    axis = rng.randrange(len(shape))
    size = shape[axis]
    index_shape = rng.choice(((), (3,), (2, 2), (2, 3), (1, 2, 2)))
    count = prod(index_shape)
    start = rng.randrange(size)
    draw = rng.choice(
        (
            lambda k: rng.randrange(-size, size),
            lambda k: start,
            lambda k: k % size,
            lambda k: k // 2 % size,
        )
    )
    return Gather(axis, tuple(draw(k) for k in range(count)), index_shape), [shape]


def pad_constant(rng: random.Random) -> Case:
    shape = random_shape(rng, 1, 3, 36)
    value = rng.choice((0.0, 0.0, 0.5, 1.0, 1.5, -3.0, 6.0, 0.3, 40.0, 200.0))
    return Pad(*_borders(rng, shape, 2), "constant", value), [shape]


def pad_zero(rng: random.Random) -> Case:
    shape = random_shape(rng, 1, 3, 36)
    return Pad(*_borders(rng, shape, 2)), [shape]


def pad_copies(rng: random.Random) -> Case:
    mode = rng.choice(("edge", "reflect", "wrap"))
    shape = random_shape(rng, 1, 3, 36)
    return Pad(*_borders(rng, shape, 3), mode), [shape]


def resize(rng: random.Random) -> Case:
    shape = random_shape(rng, 1, 3, 36)
    indices = [
        None
        if rng.random() < 0.5
        else tuple(sorted(rng.randrange(size) for _ in range(rng.choice((1, 2, size, 2 * size)))))
        for size in shape
    ]
    return ResizeNearest(tuple(indices)), [shape]


def depth_to_space(rng: random.Random) -> Case:
    shape = (rng.choice((1, 2)), 4 * rng.choice((1, 2, 3)), rng.choice((1, 2)), rng.choice((1, 2)))
    return DepthToSpace(2, rng.choice(("DCR", "CRD"))), [shape]


def space_to_depth(rng: random.Random) -> Case:
    shape = (rng.choice((1, 2)), rng.choice((1, 2, 3)), rng.choice((2, 4)), rng.choice((2, 4, 6)))
    return SpaceToDepth(2, rng.choice(("DCR", "CRD"))), [shape]


def im2col(rng: random.Random) -> Case:
    dims = rng.choice((1, 2))
    shape = (rng.choice((1, 2)), rng.choice((1, 2, 3)), *(rng.choice((3, 4)) for _ in range(dims)))

    def each(*values: int) -> tuple[int, ...]:
        return tuple(rng.choice(values) for _ in range(dims))

    dilations = each(1, 1, 2)
    kernel = tuple(rng.choice((1, 2) if d == 2 else (1, 2, 3)) for d in dilations)
    value = rng.choice((0.0, 0.0, 1.0, 0.3))
    return Im2col(kernel, each(1, 2), each(0, 1), each(0, 1), dilations, value), [shape]


def select(rng: random.Random) -> Case:
    shape = random_shape(rng, 1, 3, 36)
    shapes = [tuple(1 if rng.random() < 0.2 else size for size in shape) for _ in range(2)]
    mask = tuple(rng.random() < 0.5 for _ in range(prod(shape)))
    return Select(shape, mask), shapes


def insert(rng: random.Random) -> Case:
    shape = random_shape(rng, 1, 3, 36)
    starts, steps, update = list[int](), list[int](), list[int]()
    for size in shape:
        start = rng.choice((0, rng.randrange(size)))
        step = rng.choice((1, 1, 2))
        room = (size - start - 1) // step + 1
        starts.append(start)
        steps.append(step)
        update.append(rng.choice((room, rng.randint(0 if rng.random() < 0.1 else 1, room))))
    return Insert(tuple(starts), tuple(steps)), [shape, tuple(update)]


def first(rng: random.Random) -> Case:
    shape = random_shape(rng)
    dims = tuple(k for k in range(len(shape)) if rng.random() < 0.4)
    return First(dims, rng.random() < 0.5), [shape]


def _borders(rng: random.Random, shape: Shape, most: int) -> tuple[Shape, Shape]:
    def side() -> Shape:
        return tuple(rng.choice((0, 0, *range(1, most + 1))) for _ in shape)

    return side(), side()


GENERATORS: dict[str, Callable[[random.Random], Case]] = {
    make.__name__.strip("_"): make
    for make in (
        reshape,
        grouped_reshape,
        squeeze,
        unsqueeze,
        flatten,
        transpose,
        slice_,
        concat,
        flip,
        tile,
        repeat_interleave,
        broadcast,
        take,
        gather,
        pad_constant,
        pad_zero,
        pad_copies,
        resize,
        depth_to_space,
        space_to_depth,
        im2col,
        select,
        insert,
        first,
    )
}
BIJECTIVE = (
    "reshape",
    "grouped_reshape",
    "squeeze",
    "unsqueeze",
    "flatten",
    "transpose",
    "flip",
    "depth_to_space",
    "space_to_depth",
)
