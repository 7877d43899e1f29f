"""Families of raise-dynamic and lower-dynamic: the pieces against the op."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from families import TENTH, family
from families_combine import RANDOM
from families_integerize import Floats, f32
from rewrite_support import Program, per_axis, quant, tensor

#: scale and zero point of each channel of a weight, or one for all
FIELDS = [[(0.5, 0)], [(TENTH, -7)], [(0.25, 3), (TENTH, 0), (0.5, -128)]]
CASES = list(product(("i8", "u8"), FIELDS, (False, True)))


def _weight(conv: bool) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    return RANDOM.integers(0, 128, (3, 2, 2) if conv else (4, 3)).astype(np.int8)


def _inputs(conv: bool) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    x = RANDOM.normal(size=(2, 2, 5) if conv else (2, 4)).astype(np.float32)
    return x + np.float32(RANDOM.integers(-2, 3))


def _shapes(conv: bool) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return ((2, 2, 5), (3, 2, 2), (2, 3, 3)) if conv else ((2, 4), (4, 3), (2, 3))


@family("lower-dynamic", pipeline="lower-dynamic")
def composites() -> Iterator[Program]:
    for storage, fields, conv in CASES:
        yield _composite(storage, fields, conv)


@family("dynamic-to-float", pipeline="lower-dynamic{to=floats numerics=relaxed}")
def relaxed() -> Iterator[Program]:
    for storage, fields, conv in CASES:
        yield _composite(storage, fields, conv)


def _composite(storage: str, fields: list[tuple[float, int]], conv: bool) -> Program:
    x, w, y = _shapes(conv)
    p = Floats(f"{storage} {fields} {conv}")
    shift = 128 if storage == "u8" else 0
    # What runs ConvInteger takes one zero point.
    zeros = [zero + shift for _, zero in fields[:1] * len(fields) if conv] or None
    zeros = zeros or [zero + shift for _, zero in fields]
    pairs = [(scale, zero) for (scale, _), zero in zip(fields, zeros, strict=True)]
    axis = 0 if conv else 1
    kind = quant(storage, *pairs[0]) if len(pairs) == 1 else per_axis(storage, axis, pairs)
    given = p.argument(f32(x), _inputs(conv))
    weight = p.constant(_weight(conv), kind, "i8")
    text = "dynamic_conv1d {}, {} strides [2] pads [0, 1]" if conv else "dynamic_matmul {}, {}"
    operands = [f32(x), tensor(w, kind)]
    return p.returns(p.nn(text.format(given, weight), operands, f32(y)), f32(y))


@family("raise-dynamic", pipeline="raise-dynamic")
def pieces() -> Iterator[Program]:
    for storage, fields, conv in CASES:
        element = {"i8": "i8", "u8": "ui8"}[storage]
        x, w, y = _shapes(conv)
        p = Floats(f"pieces {storage} {fields} {conv}")
        shift = 128 if storage == "u8" else 0
        given = p.argument(f32(x), _inputs(conv))
        weight = p.constant(_weight(conv), element, element)
        zeros = np.array([zero + shift for _, zero in fields])
        zeros = zeros[0] if len(fields) == 1 else zeros
        if conv and zeros.ndim:
            zeros = zeros[0]  # what runs it takes one
        zero = p.constant(zeros, element, element)
        scales = np.array([scale for scale, _ in fields], np.float32)
        scales = scales.reshape(-1, 1) if conv and len(fields) > 1 else scales
        scale = p.constant(scales, "f32", "f32")
        names = [f"%d{suffix}" for suffix in ("q", "s", "z")]
        codes, unit = tensor(x, "ui8"), ("tensor<f32>", "tensor<ui8>")
        p.lines.append(
            f"{', '.join(names)} = nn.dynamic_quantize {given} : ({f32(x)}) -> "
            f"({codes}, {', '.join(unit)})"
        )
        node = "ConvInteger" if conv else "MatMulInteger"
        more = "attributes {pads = array<i64: 0, 1>, strides = array<i64: 2>}" if conv else ""
        kinds = [codes, tensor(w, element), unit[1], tensor(zeros.shape, element)]
        p.lines.append(
            f'%sums = onnx.node "{node}" ({names[0]}, {weight}, {names[2]}, {zero}) {more} : '
            f"({', '.join(kinds)}) -> {tensor(y, 'i32')}"
        )
        p.lines.append(
            '%real = onnx.node "Cast" (%sums) attributes {to = 1 : i64} : '
            f"({tensor(y, 'i32')}) -> {f32(y)}"
        )
        both = p.nn(f"mul {names[1]}, {scale}", [unit[0], f32(scales.shape)], f32(scales.shape))
        result = p.nn(f"mul %real, {both}", [f32(y), f32(scales.shape)], f32(y))
        yield p.returns(result, f32(y))
