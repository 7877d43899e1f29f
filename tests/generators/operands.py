"""What the operands of a random op are where they must fit one another, and words to choose from.

Each function draws the operands and the properties of one op (`random_programs.Builder`).
"""

# pyright: basic
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import f32, i1, i32, i64
from xdsl.ir import SSAValue

from qdialect.algebra.qparams import QParams, Storage
from qdialect.ir.ops import LayerNormOp, shape_of
from qdialect.ir.quant import UniformType, element_type, quant_element

if TYPE_CHECKING:
    from tests.generators.programs import Builder

Drawn = tuple[list[SSAValue], dict[str, Any]]


def is_number(value: SSAValue) -> bool:
    """Whether a value is f32 or quantized."""
    return element_type(value.type) == f32 or quant_element(value.type) is not None


def _conv(b: Builder, op: type) -> Drawn:
    x = b.pick(b.takes(op))
    shape = shape_of(x)
    spatial = len(shape) - 2
    channels = shape[1]
    groups = b.random.choice([g for g in (1, 1, 2, channels) if g > 0 and channels % g == 0])
    kernel = [b.random.randint(1, 3) for _ in range(spatial)]
    properties = b.properties(op, shape) | {"groups": groups}
    out = groups * b.random.randint(1, 3)
    if "transpose" in op.name:
        dims, axis = [channels, out // groups, *kernel], 1
    else:
        dims, axis = [out, channels // groups, *kernel], 0
    dynamic = "dynamic" in op.name
    if dynamic and element_type(x.type) != f32:
        raise ValueError("takes floats")
    if dynamic:
        element = UniformType(QParams.per_tensor(Storage.of("i8"), 0.1))
        return [x, b.like(element, dims)], properties
    w = b.weight(x, dims, axis)
    bias = b.bias(x, w, out, groups)
    return [v for v in (x, w, bias) if v is not None], properties


def _product(b: Builder, op: type) -> Drawn:
    x = b.pick(lambda v: len(shape_of(v)) >= 2 and is_number(v))
    shape = shape_of(x)
    depth, out = shape[-1], b.random.randint(1, 5)
    if depth < 1:
        raise ValueError("depth")
    properties = b.properties(op, shape)
    if op.name == "nn.fully_connected":
        if len(shape) != 2:
            raise ValueError("rank")
        w = b.weight(x, [out, depth], 0)
        bias = b.bias(x, w, out)
        return [v for v in (x, w, bias) if v is not None], properties
    if op.name == "nn.dynamic_matmul":
        element = UniformType(QParams.per_tensor(Storage.of("i8"), 0.1))
        return [x, b.like(element, [depth, out])], properties
    others = [v for v in b.values if len(shape_of(v)) == len(shape) and shape_of(v)[-2] == depth]
    others = [v for v in others if shape_of(v)[:-2] == shape[:-2] and is_number(v)]
    if others and b.random.random() < 0.5:
        return [x, b.random.choice(others)], properties
    return [x, b.weight(x, [depth, out], 1)], properties


def _attention(b: Builder, op: type) -> Drawn:
    q = b.pick(lambda v: len(shape_of(v)) >= 2 and is_number(v))
    shape = shape_of(q)
    kind = element_type(q.type)
    alike = [v for v in b.values if shape_of(v) == shape and element_type(v.type) == kind]
    k, v = (b.random.choice(alike) for _ in range(2))
    return [q, k, v], b.properties(op, shape) | {"scale": b.random.choice((0.5, 0.125, 1.0))}


def _gather(b: Builder, op: type) -> Drawn:
    x = b.pick(lambda v: len(shape_of(v)) >= 1 and is_number(v))
    shape = shape_of(x)
    axis = b.random.choice([d for d, n in enumerate(shape) if n > 0])
    dims = b.random.choice(([], [2], [2, 3]))
    indices = b.numbers.integers(-shape[axis], shape[axis], tuple(dims)).astype("i8")
    return [x, b.constant(np.asarray(indices, "i8"), i64)], {"axis": axis}


def _reshape_to(b: Builder, op: type) -> Drawn:
    """A shape that the program computes: all elements in a row, or the extents as they are."""
    x = b.pick(b.takes(op))
    shape = shape_of(x)
    extents = [-1] if b.random.random() < 0.5 else [*shape[:-1], -1]
    if extents.count(-1) > 1:
        raise ValueError("several unknown extents")
    return [x, b.constant(np.asarray(extents, "i8"), i64)], {}


def _select(b: Builder, op: type) -> Drawn:
    x = b.pick()
    kind = element_type(x.type)
    alike = [v for v in b.values if shape_of(v) == shape_of(x) and element_type(v.type) == kind]
    flags = [v for v in b.values if element_type(v.type) == i1]
    dims = tuple(n if n > 0 else 1 for n in shape_of(x))
    chosen = b.random.choice(flags) if flags else b.constant(b.numbers.random(dims) < 0.5, i1)
    return [chosen, x, b.random.choice(alike)], {}


def _insert(b: Builder, op: type) -> Drawn:
    x = b.pick(lambda v: min(shape_of(v), default=0) > 0 and is_number(v))
    shape = shape_of(x)
    starts = [b.random.randrange(n) for n in shape]
    counts = [b.random.randint(1, n - s) for n, s in zip(shape, starts, strict=True)]
    return [x, b.like(element_type(x.type), counts)], {"starts": starts, "steps": [1] * len(shape)}


def _split(b: Builder, op: type) -> Drawn:
    x = b.pick(lambda v: any(n > 1 for n in shape_of(v)) and is_number(v))
    axis = b.random.choice([d for d, n in enumerate(shape_of(x)) if n > 1])
    first = b.random.randrange(1, shape_of(x)[axis])
    return [x], {"axis": axis, "sizes": [first, shape_of(x)[axis] - first]}


def _slice(b: Builder, op: type) -> Drawn:
    x = b.pick(lambda v: min(shape_of(v), default=0) > 0 and is_number(v))
    shape = shape_of(x)
    starts = [b.random.randrange(n) for n in shape]
    stops = [b.random.randint(s + 1, n) for n, s in zip(shape, starts, strict=True)]
    steps = [b.random.choice((1, 1, 2)) for _ in shape]
    if b.blocks and b.random.random() < 0.3:
        axis = b.random.randrange(len(shape))
        starts[axis], stops[axis], steps[axis] = stops[axis] - 1, starts[axis] - 1, -1
        stops[axis] -= shape[axis] if stops[axis] < 0 else 0
    return [x], {"starts": starts, "stops": stops, "steps": steps}


def _reshape(b: Builder, op: type) -> Drawn:
    x = b.pick(lambda v: min(shape_of(v), default=0) > 0 and is_number(v))
    left, dims = math.prod(shape_of(x)), []
    while left > 1:
        divisors = [d for d in range(2, left + 1) if left % d == 0]
        dims.append(b.random.choice(divisors))
        left //= dims[-1]
    b.random.shuffle(dims)
    return [x], {"shape": dims or [1]}


def _expand(b: Builder, op: type) -> Drawn:
    x = b.pick(lambda v: 1 in shape_of(v) and min(shape_of(v)) > 0 and is_number(v))
    return [x], {"shape": [n if n != 1 else b.random.randint(1, 3) for n in shape_of(x)]}


def _squeeze(b: Builder, op: type) -> Drawn:
    x = b.pick(lambda v: 1 in shape_of(v) and is_number(v))
    ones = [d for d, n in enumerate(shape_of(x)) if n == 1]
    return [x], {"axes": sorted(b.random.sample(ones, b.random.randint(1, len(ones))))}


def _concat(b: Builder, op: type) -> Drawn:
    x = b.pick(lambda v: len(shape_of(v)) >= 1 and is_number(v))
    shape, kind = shape_of(x), element_type(x.type)
    axis = b.random.randrange(len(shape))

    def fits(v: SSAValue) -> bool:
        other = shape_of(v)
        return (
            element_type(v.type) == kind
            and len(other) == len(shape)
            and all(n == m for d, (n, m) in enumerate(zip(shape, other, strict=True)) if d != axis)
        )

    alike = [v for v in b.values if fits(v)]
    return [b.random.choice(alike) for _ in range(b.random.randint(1, 4))], {"axis": axis}


def _channel_statistics(b: Builder, op: type) -> Drawn:
    x = b.pick(lambda v: len(shape_of(v)) >= 2 and shape_of(v)[1] > 0 and is_number(v))
    count = [shape_of(x)[1]]
    rest = [b.constant(b.numbers.normal(size=count).astype("f4"), f32) for _ in range(3)]
    spread = b.constant((0.1 + b.numbers.random(count)).astype("f4"), f32)
    return [x, *rest, spread], b.properties(op, shape_of(x))


def _layer_norm(b: Builder, op: type) -> Drawn:
    x = b.pick(lambda v: shape_of(v)[-1:] > (0,) and is_number(v))
    shape = shape_of(x)
    axis = b.random.choice([a for a in range(len(shape)) if min(shape[a:]) > 0])
    dims = shape[axis:]
    most = 2 if op is LayerNormOp else 1
    rest = [b.like(f32, dims) for _ in range(b.random.randint(1, most))]
    return [x, *rest], b.properties(op, shape) | {"axis": axis}


def _prelu(b: Builder, op: type) -> Drawn:
    x = b.pick(lambda v: len(shape_of(v)) >= 2 and is_number(v))
    shape = shape_of(x)
    dims = [max(shape[1], 1)] + [1] * (len(shape) - 2)
    kind = quant_element(x.type)
    element = f32 if kind is None else UniformType(b.qparams())
    return [x, b.like(element, dims)], b.properties(op, shape)


def _recurrent(b: Builder, op: type) -> Drawn:
    x = b.pick(lambda v: len(shape_of(v)) == 3 and min(shape_of(v)) > 0)
    if element_type(x.type) != f32:
        raise ValueError("takes floats here")
    _, batch, size = shape_of(x)
    direction = b.random.choice(("forward", "reverse", "bidirectional"))
    dirs, hidden = (2 if direction == "bidirectional" else 1), b.random.randint(1, 3)
    rows = op.GATES * hidden
    operands = [
        x,
        b.like(f32, [dirs, rows, size]),
        b.like(f32, [dirs, rows, hidden]),
        b.like(f32, [dirs, 2 * rows]),
    ]
    lengths = b.random.random() < 0.3
    if lengths or b.random.random() < 0.5:
        operands += [b.like(f32, [dirs, b.random.choice((1, batch)), hidden]) for _ in op.STATES]
    if lengths:
        steps = shape_of(x)[0]
        counts = [b.random.randint(0, steps) for _ in range(max(batch, 0))]
        operands.append(b.constant(np.asarray(counts, "i4"), i32))
    last = b.random.randint(0, len(op.STATES))
    chosen = {"direction": direction, "last_states": last}
    return operands, b.properties(op, shape_of(x)) | chosen


def _table(b: Builder, op: type) -> Drawn:
    def accepts(v: SSAValue) -> bool:
        kind = quant_element(v.type)
        return kind is not None and kind.qparams.storage.width <= 8

    x = b.pick(accepts)
    kind = quant_element(x.type)
    if kind is None or kind.qparams.storage.width > 8:
        raise ValueError("no codes")
    return [x, b.like(UniformType(b.qparams()), [1 << kind.qparams.storage.width])], {}


OPERANDS: dict[str, Callable[[Builder, type], Any]] = {
    **dict.fromkeys(
        [
            f"nn.{kind}{n}d"
            for kind in ("conv", "conv_transpose", "dynamic_conv")
            for n in (1, 2, 3)
        ],
        _conv,
    ),
    **dict.fromkeys(["nn.fully_connected", "nn.matmul", "nn.dynamic_matmul"], _product),
    "nn.attention": _attention,
    "nn.gather": _gather,
    "nn.reshape_to": _reshape_to,
    "nn.select": _select,
    "nn.insert": _insert,
    "nn.split": _split,
    "nn.slice": _slice,
    "nn.reshape": _reshape,
    "nn.expand": _expand,
    "nn.squeeze": _squeeze,
    "nn.concat": _concat,
    "nn.batch_norm": _channel_statistics,
    "nn.layer_norm": _layer_norm,
    "nn.rms_norm": _layer_norm,
    "nn.prelu": _prelu,
    "nn.lstm": _recurrent,
    "nn.gru": _recurrent,
    "nn.table": _table,
}

CHOICES: dict[str, dict[str, Sequence[str]]] = {
    "nn.gelu": {"approximate": ("none", "tanh")},
    "nn.pad": {"mode": ("constant", "edge", "reflect")},
    "nn.compare": {"mode": ("lt", "le", "eq", "gt", "ge", "less", "greater", "equal")},
    "nn.depth_to_space": {"mode": ("DCR", "CRD")},
    "nn.space_to_depth": {"mode": ("DCR", "CRD")},
    "nn.resize_linear": {"coordinates": ("half_pixel", "asymmetric", "align_corners")},
    "nn.resize_nearest": {
        "coordinates": ("half_pixel", "asymmetric", "align_corners"),
        "nearest": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    },
}
