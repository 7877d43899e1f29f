"""Random movement ops, and what quantized values mean element by element."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation

from qdialect.algebra.qparams import QParams
from qdialect.algebra.qparams.legality import Illegal
from qdialect.ir import ops as nn
from qdialect.ir.behaviors import PortKind
from qdialect.ir.behaviors.flow import carry_down
from qdialect.ir.ops.declare import behavior_of
from qdialect.ir.quant import UniformType, quant_element, with_element

Make = Callable[[random.Random], tuple[type[nn.NNOp], list[tuple[int, ...]], dict[str, Any]]]


def shape(rng: random.Random, low: int = 1, high: int = 4) -> tuple[int, ...]:
    return tuple(rng.choice((0, 1, 1, 2, 3, 4)) for _ in range(rng.randint(low, high)))


def squeeze(rng: random.Random) -> Any:
    x = shape(rng, 0)
    ones = [d for d, n in enumerate(x) if n == 1]
    axes = rng.sample(ones, rng.randint(0, len(ones)))
    return nn.SqueezeOp, [x], {"axes": [a - rng.choice((0, len(x))) for a in axes]}


def unsqueeze(rng: random.Random) -> Any:
    x, more = shape(rng, 0, 3), rng.randint(0, 2)
    rank = len(x) + more
    axes = rng.sample(range(rank), more)
    return nn.UnsqueezeOp, [x], {"axes": [a - rng.choice((0, rank)) for a in axes]}


def expand(rng: random.Random) -> Any:
    x = shape(rng, 0, 3)
    wanted = [n if n != 1 else rng.choice((1, 2, 3)) for n in x]
    wanted = [rng.choice((1, n)) if n != 1 else 1 for n in wanted]
    return nn.ExpandOp, [x], {"shape": [2] * rng.randint(0, 1) + wanted}


def tile(rng: random.Random) -> Any:
    x = shape(rng)
    return nn.TileOp, [x], {"repeats": [rng.randint(0, 3) for _ in x]}


def repeat(rng: random.Random) -> Any:
    x = shape(rng)
    return nn.RepeatOp, [x], {"repeats": [rng.randint(0, 3) for _ in x]}


def flip(rng: random.Random) -> Any:
    x = shape(rng)
    axes = rng.sample(range(len(x)), rng.randint(0, len(x)))
    return nn.FlipOp, [x], {"axes": [a - rng.choice((0, len(x))) for a in axes]}


def split(rng: random.Random) -> Any:
    sizes = [rng.randint(0, 3) for _ in range(rng.randint(1, 3))]
    x = list(shape(rng))
    axis = rng.randrange(len(x))
    x[axis] = sum(sizes)
    return nn.SplitOp, [tuple(x)], {"axis": axis - rng.choice((0, len(x))), "sizes": sizes}


def phases(kind: type[nn.NNOp], deep: bool) -> Make:
    def make(rng: random.Random) -> Any:
        r, c, h, w = (rng.randint(1, 3) for _ in range(4))
        x = (rng.randint(1, 2), c * r * r, h, w) if deep else (1, c, h * r, w * r)
        return kind, [x], {"block": r, "mode": rng.choice(("DCR", "CRD"))}

    return make


def im2col(rng: random.Random) -> Any:
    kernel = [rng.randint(1, 3), rng.randint(1, 2)]
    x = (rng.randint(1, 2), rng.randint(1, 3), rng.randint(3, 6), rng.randint(3, 6))
    return (
        nn.Im2colOp,
        [x],
        {
            "kernel": kernel,
            "strides": [rng.randint(1, 2), rng.randint(1, 2)],
            "pads": [rng.randint(0, 2) for _ in range(4)],
            "dilations": [1, rng.randint(1, 2)],
        },
    )


def resize(rng: random.Random) -> Any:
    x = tuple(rng.randint(1, 6) for _ in range(rng.randint(1, 4)))
    given: dict[str, Any]
    if rng.random() < 0.5:
        given = {"sizes": [rng.randint(0, 7) for _ in x]}
    else:
        given = {"scales": [rng.choice((1.0, 2.0, 0.5, 0.6, 1.5, 0.75, 3.3)) for _ in x]}
    coordinates = rng.choice(("asymmetric", "half_pixel", "align_corners"))
    nearest = rng.choice(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))
    return nn.ResizeNearestOp, [x], {**given, "coordinates": coordinates, "nearest": nearest}


MAKERS: dict[str, Make] = {
    "squeeze": squeeze,
    "unsqueeze": unsqueeze,
    "expand": expand,
    "tile": tile,
    "repeat": repeat,
    "flip": flip,
    "split": split,
    "depth_to_space": phases(nn.DepthToSpaceOp, True),
    "space_to_depth": phases(nn.SpaceToDepthOp, False),
    "im2col": im2col,
    "resize_nearest": resize,
}


def random_qparams(rng: random.Random, extents: tuple[int, ...]) -> QParams:
    if extents and 0 not in extents and rng.random() < 0.7:
        axis = rng.randrange(len(extents))
        scales = [rng.choice((0.25, 0.5, 1.0)) for _ in range(extents[axis])]
        zeros = [rng.choice((0, 3)) for _ in scales]
        return QParams.per_axis("i8", axis, scales, zeros)
    return QParams.per_tensor("i8", 0.5, 3)


def codes(rng: random.Random, extents: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(rng.randrange(2**32)).integers(-100, 100, extents, np.int8)


def quantized_op(
    kind: type[nn.NNOp],
    operands: list[Any],
    properties: dict[str, Any],
    qparams: QParams,
) -> Operation | Illegal:
    """The op on stored integers with result types as the law gives them."""
    plain = kind(*operands, **properties)
    behavior = behavior_of(plain.name)
    tied = sum(behavior.operand_port(i).kind is PortKind.TIED for i in range(len(operands)))
    types: list[Attribute] = []
    for index, result in enumerate(plain.results):
        carried = carry_down(plain, behavior, [qparams] * tied, index)
        if isinstance(carried, Illegal):
            return carried
        types.append(with_element(result.type, UniformType(carried)))
    return kind(*operands, result_types=types, **properties)


def dequantize(stored: np.ndarray, kind: Attribute) -> np.ndarray:
    """(q - zero point) * scale, per tensor or per axis, in float64."""
    element = quant_element(kind)
    assert element is not None
    qparams = element.qparams
    scales, zeros = qparams.scale_list(), qparams.zero_point_list()
    result = np.empty(stored.shape)
    for index in np.ndindex(stored.shape):
        cell = 0 if qparams.axis is None else index[qparams.axis]
        if qparams.blocks and qparams.axis is None:
            blocks = dict(qparams.blocks)
            at = [index[d] // blocks[d] if d in blocks else 0 for d in range(stored.ndim)]
            cell = int(np.ravel_multi_index(at, qparams.grid))
        result[index] = (int(stored[index]) - zeros[cell]) * scales[cell]
    return result
