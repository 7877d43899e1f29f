"""form-delegated on all codes: at `exact` the interpreter gives the same, at `bounded` within what
is said."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from rewrite_support import Array, apply, parse

from qdialect.interpreter import Interpreter

ALL = np.arange(-128, 128).astype(np.int8)
LEFT, RIGHT = (a.reshape(-1) for a in np.meshgrid(ALL, ALL))


def _scales(seed: int, count: int) -> list[tuple[float, int]]:
    """Random scales in float32, some of them powers of two, and zero points."""
    rng = np.random.default_rng(seed)
    found: list[tuple[float, int]] = []
    for _ in range(count):
        scale = float(np.float32(rng.uniform(0.01, 0.2)))
        if rng.random() < 0.3:
            scale = 2.0 ** -int(rng.integers(3, 7))
        found.append((scale, int(rng.integers(-128, 128))))
    return found


def _text(grids: list[tuple[float, int]], body: str, size: int) -> str:
    names = "xyzw"
    lines = [
        f"!{names[i]} = tensor<{size}x!quant.uniform<i8:f32, {scale!r}:{zero}>>"
        for i, (scale, zero) in enumerate(grids)
    ]
    head = 'module attributes {quant.arithmetic = "expressed", tflite.kernels = "litert-xnn"} {'
    return "\n".join([*lines, f"!f = tensor<{size}xf32>", head, body, "}"])


def _island(op: str, sources: int) -> str:
    """`op` on floats between the casts of XNNPACK."""
    kinds, names = "xyz"[:sources], ["%a", "%b"][:sources]
    arguments = ", ".join(f"{n}: !{k}" for n, k in zip(names, kinds, strict=False))
    result = "xyz"[sources]
    mark = '{nn.kernel = "litert-xnn"}'
    lines = [f"func.func @main({arguments}) -> !{result} {{"]
    for n, k in zip(names, kinds, strict=False):
        lines.append(f"  {n}f = quant.dcast {n} {mark} : !{k} to !f")
    lines.append(f"  %o = {op}")
    lines.append(f"  %r = quant.qcast %o {mark} : !f to !{result}")
    return "\n".join([*lines, f"  func.return %r : !{result}", "}"])


FORMS = {
    "leaky_relu": ("nn.leaky_relu %af alpha 0.2 : (!f) -> !f", 1),
    "relu": ("nn.relu %af : (!f) -> !f", 1),
    "add": ("nn.add %af, %bf : (!f, !f) -> !f", 2),
    "sub": ("nn.sub %af, %bf : (!f, !f) -> !f", 2),
    "mul": ("nn.mul %af, %bf : (!f, !f) -> !f", 2),
}


def _run(text: str, inputs: Sequence[Array], level: str) -> tuple[int, float, int]:
    """How far results are off, what the remarks allow, and how many rewrites fired."""
    before, ctx = parse(text)
    expected = Interpreter(ctx, before).run(inputs)[0].astype(np.int64)
    after, ctx = parse(text)
    remarks = apply(after, ctx, f"form-delegated{{numerics={level}}},dce")
    got = Interpreter(ctx, after).run(inputs)[0].astype(np.int64)
    fired = [r for r in remarks if r.kind == "fired" and r.rule != "dce"]
    steps = [re.search(r"bounded\((\d+)", str(r)) for r in fired]
    allowed = max((float(s.group(1)) for s in steps if s), default=0.0)
    return int(np.abs(expected - got).max()), allowed, len(fired)


@pytest.mark.parametrize("form", FORMS)
def test_islands_on_all_codes(form: str) -> None:
    op, sources = FORMS[form]
    inputs = [ALL] if sources == 1 else [LEFT, RIGHT]
    exact = near = 0
    for seed in range(16 if sources == 1 else 5):
        grids = _scales(seed, sources + 1)
        if form == "relu":
            grids[1] = grids[0]
        text = _text(grids, _island(op, sources), inputs[0].size)
        apart, _, fired = _run(text, inputs, "exact")
        assert apart == 0
        exact += fired
        apart, allowed, fired = _run(text, inputs, "bounded")
        assert apart <= allowed
        near += fired
    assert near >= exact
    assert near > 0


@pytest.mark.parametrize("form", ["hard_swish", "exp", "gelu"])
def test_ops_off_the_delegate_on_all_codes(form: str) -> None:
    body = (
        f"func.func @main(%a: !x) -> !y {{\n"
        f'  %r = nn.{form} %a {{nn.kernel = "litert-opt"}} : (!x) -> !y\n'
        "  func.return %r : !y\n}"
    )
    near = 0
    for seed in range(12):
        text = _text(_scales(100 + seed, 2), body, 256)
        assert _run(text, [ALL], "exact")[0] == 0
        apart, allowed, fired = _run(text, [ALL], "bounded")
        assert apart <= allowed
        near += fired
    assert near > 0
