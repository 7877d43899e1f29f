"""Rescales past an average pool that a target wants on one scale."""

from __future__ import annotations

from dataclasses import replace

import pytest
from families import GRID, pairs
from families_move import SHAPE, shaped
from rewrite_support import Program, apply, evaluate, fired, parse, per_axis, quant, tensor

from qdialect.algebra.contract import Numerics
from qdialect.ir.behaviors import PortKind
from qdialect.ir.context import QContext, new_context
from qdialect.ir.ops.declare import behavior_of


def session() -> QContext:
    """One in which average pools have tied ports."""
    ctx = new_context()
    for name in ("nn.avg_pool2d", "nn.global_avg_pool2d"):
        plain = behavior_of(name)
        ports = [
            tuple(replace(port, kind=PortKind.TIED) for port in side)
            for side in (plain.operands, plain.results)
        ]
        ctx.behaviors.register(replace(plain, operands=ports[0], results=ports[1]))
    return ctx


POOLS = [
    ("avg_pool2d %x kernel [3, 2] strides [2, 1] pads [1, 1, 1, 0]", (1, 2, 8, 16)),
    (
        "avg_pool2d %x kernel [2, 2] pads [1, 1, 0, 0] count_include_pad true rounding half_away",
        SHAPE,
    ),
    ("global_avg_pool2d %x", (1, 2, 1, 1)),
]


def program(text: str, shape: tuple[int, ...], a: str, b: str, sinks: bool) -> Program:
    p = Program(f"{text} {a} {b}")
    x = p.codes(a, shaped(a)[0])
    if sinks:
        x = p.op(f"quant.rescale {x}", tensor(SHAPE, a), tensor(SHAPE, b))
        y = p.nn(text.replace("%x", x), [tensor(SHAPE, b)], tensor(shape, b))
    else:
        y = p.nn(text.replace("%x", x), [tensor(SHAPE, a)], tensor(shape, a))
        y = p.op(f"quant.rescale {y}", tensor(shape, a), tensor(shape, b))
    return p.returns(y, tensor(shape, b))


@pytest.mark.parametrize("sinks", [True, False])
@pytest.mark.parametrize(("text", "shape"), POOLS, ids=["outside", "inside", "global"])
def test_the_bound_holds(text: str, shape: tuple[int, ...], sinks: bool) -> None:
    name, times, most = "sink" if sinks else "hoist", 0, 0.0
    channels = per_axis("i8", 1, [(0.5, 3), (0.25, 0)]), per_axis("i8", 1, [(1.0, 0), (0.5, -9)])
    for a, b in [*pairs(GRID), channels]:
        p = program(text, shape, a, b, sinks)
        module, ctx = parse(p.text, session())
        before = evaluate(module, ctx, p.inputs)
        done = fired(apply(module, ctx, f"{name}-rescale{{numerics=bounded}}"))
        assert {r.rule for r in done} <= {f"{name}-through-bounded"}
        if not done:
            continue
        times += 1
        after = evaluate(module, ctx, p.inputs)
        far = abs(before[0].astype(int) - after[0].astype(int)).max()
        assert far <= done[0].steps, (p.label, far, done[0].steps)
        most = max(most, far)
    assert times > 20 and most >= 1


def test_what_it_says() -> None:
    a, b = quant("i8", 1.0, 0), quant("i8", 2.0, 0)
    text, shape = POOLS[0]
    for sinks, rule in ((True, "sink-through-bounded"), (False, "hoist-through-bounded")):
        p = program(text, shape, a, b, sinks)
        module, ctx = parse(p.text, session())
        name = rule.partition("-")[0]
        (remark,) = apply(module, ctx, f"{name}-rescale")
        assert (remark.rule, remark.code) == (rule, "numerics")
        (remark,) = apply(module, ctx, f"{name}-rescale{{numerics=bounded}}")
        # 0.5 * s_x / s_out + 1.5
        assert remark.steps == pytest.approx(1.75)


def test_a_clip_that_moves_is_a_saturation() -> None:
    """Codes of b reach less far."""
    text, shape = POOLS[0]
    p = program(text, shape, quant("i8", 1.0, 0), quant("i8", 0.5, 0), True)
    module, ctx = parse(p.text, session())
    assert not fired(apply(module, ctx, "sink-rescale{numerics=bounded}"))
    (remark,) = fired(apply(module, ctx, "sink-rescale{numerics=saturation}"))
    assert remark.contract == str(Numerics.SATURATION)
