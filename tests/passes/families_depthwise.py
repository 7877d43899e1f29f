"""Families of form-depthwise: affine functions per channel, of either sign."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from families import GRID, ROUNDINGS, family, pairs, rounding
from rewrite_support import Program, all_codes, tensor

STATISTICS = [
    # scale, bias, mean, variance
    ([1.0, -2.0], [0.5, -1.0], [0.0, 3.0], [1.0, 4.0]),
    ([1.0, 0.3], [0.0, 0.7], [0.1, 0.0], [2.0, 3.0]),
    ([0.0, -1.1], [0.5, 100.0], [1.0, 3.0], [0.25, 0.7]),
]
VECTORS = [("mul", [0.5, -3.0]), ("add", [1.3, -20.0]), ("div", [3.0, -0.7]), ("mul", [0.0, 1.7])]


def column(p: Program, numbers: list[float], rank: int) -> tuple[str, str]:
    held = np.array(numbers, np.float32).reshape(-1, *(1,) * rank)
    return p.constant(held, "f32", "f32"), tensor(held.shape, "f32")


@family("affine-to-depthwise", pipeline="form-depthwise{numerics=relaxed},dce")
def batch_norms() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        held = STATISTICS[n % len(STATISTICS)]
        p = Program(f"batch_norm {held} of {a} -> {b}")
        codes = np.stack([all_codes(a)] * 2)[None, :, :]
        codes = codes.reshape(1, 2, -1, *(1,) * (n % 3))
        x, kind, result = p.codes(a, codes), *(tensor(codes.shape, q) for q in (a, b))
        names = [p.constant(np.array(v, np.float32), "f32", "f32") for v in held]
        epsilon = "epsilon 0.0" if n % 2 else ""
        text = f"batch_norm {', '.join([x, *names])} {epsilon} {rounding(ROUNDINGS[n % 3])}"
        yield p.returns(p.nn(text, [kind, *[tensor((2,), "f32")] * 4], result), result)


@family("affine-to-depthwise", pipeline="form-depthwise{numerics=ties},dce")
def one_op_or_two() -> Iterator[Program]:
    for n, (a, b) in enumerate(pairs(GRID)):
        name, numbers = VECTORS[n % len(VECTORS)]
        p = Program(f"{name} {numbers} of {a} -> {b}, {n % 2}")
        codes = np.stack([all_codes(a)] * 2)[None, :, :]
        x, kind, result = p.codes(a, codes), *(tensor(codes.shape, q) for q in (a, b))
        vector, type_ = column(p, numbers, 1)
        how = rounding(ROUNDINGS[n % 3])
        y = p.nn(f"{name} {x}, {vector} {how}", [kind, type_], result)
        if n % 2:
            vector, type_ = column(p, [-0.25, 4.0], 1)
            y = p.nn(f"sub {y}, {vector} {how}", [result, type_], result)
        if n % 5 == 0:
            y = p.nn(f"clip {y} min -1.0 max 20.0", [result], result)
        yield p.returns(y, result)
