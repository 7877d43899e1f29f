"""What is derived is what would have been observed, in the bins of what it derives from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from profile_models import images, network
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from qdialect.api import Model
from qdialect.ir import ops as nn
from qdialect.ir.context import new_context
from qdialect.quantizer.profile.collector import Collector
from qdialect.quantizer.profile.engines import open_engine
from qdialect.quantizer.profile.instrument import instrument, leave_derived
from qdialect.quantizer.profile.record import (
    CHANNELS,
    Channels,
    Derived,
    Entry,
    Profile,
    Settings,
    can_clamp,
    clamped,
    derive,
    with_derived,
)
from qdialect.quantizer.profile.sketch import observe, observe_rows

BOUNDS = [(0.0, np.inf), (0.0, 6.0), (-1.01, 1.01), (-np.inf, 0.5), (0.25, 0.25), (-8.0, -2.0)]


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("seed", range(6))
def test_clamped(bounds: tuple[float, float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = bounds
    assert can_clamp(float(np.float32(low)), float(np.float32(high)))
    bounds32 = float(np.float32(low)), float(np.float32(high))
    rows = (rng.normal(size=(5, 300)) * [[0.01], [1], [5], [9], [2]]).astype(np.float32)
    rows[1, :9] = [np.inf, -np.inf, np.nan, -1e9, 1e9, 0, -0.0, 1e-40, -1e30]
    rows[3] = -np.inf
    wanted = np.clip(rows, np.float32(low), np.float32(high))
    found = clamped(observe_rows(rows), *bounds32)
    assert found == observe_rows(wanted).under(found.tops)
    assert clamped(observe_rows(rows, False), *bounds32) == observe_rows(wanted, False)
    for row in (*rows, np.zeros(0, np.float32), np.full(3, np.nan, np.float32)):
        clipped = np.clip(row, np.float32(low), np.float32(high))
        found = clamped(observe(row), *bounds32)
        assert found == observe(clipped).under(found.tops)


def test_bounds_that_bins_do_not_know() -> None:
    assert can_clamp(0.0, np.inf)
    assert not can_clamp(0.1, 1.0)
    assert not can_clamp(1.0, 0.0)
    assert not can_clamp(0.0, 1e9)
    assert not can_clamp(np.nan, 1.0)


def net() -> Model:
    """Reshapes, transposes, concats and clamps of one another, and some work."""
    ctx = new_context()
    kind = TensorType(f32, [1, 3, 6, 6])
    block = Block(arg_types=[kind])

    def add(op: Any, key: str) -> Any:
        op.attributes[nn.KEY] = StringAttr(key)
        block.add_op(op)
        return op.results[0]

    x = block.args[0]
    a = add(nn.ReluOp(x), "relu")
    b = add(nn.TransposeOp(a, perm=(0, 2, 3, 1)), "turned")
    b = add(nn.TransposeOp(b, perm=(0, 3, 1, 2)), "back")
    c = add(nn.AddOp(x, b), "sum")
    d = add(nn.ConcatOp(a, c, x, axis=1), "joined")
    e = add(nn.ReluOp(d), "joined_relu")
    block.add_op(ReturnOp(add(nn.FlattenOp(e), "flat")))
    returned = block.last_op
    assert returned is not None
    func = FuncOp("main", ((kind,), (returned.operands[0].type,)), Region(block))
    func.arg_attrs = ArrayAttr([DictionaryAttr({"nn.name": StringAttr("x")})])
    return Model(ModuleOp([func]), ctx)


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("make", [net, network])
def test_as_observed(engine: str, channels: Channels, make: Any) -> None:
    settings = Settings(engine, channels)
    found: list[Profile] = []
    for derive_them in (True, False):
        model = make()
        plan = instrument(model.module, model.ctx)
        if derive_them:
            leave_derived(plan, model.ctx, channels != "none")
            assert plan.derived()
        runner = open_engine(engine, plan, model.ctx)
        collector = Collector(Profile("d", settings), plan.derived())
        for index, image in enumerate(images(3)):
            collector.add(index, runner.run({"x": image[None]}))
        found.append(collector.profile())
    assert found[0].entries.keys() == found[1].entries.keys()
    for key, entry in found[0].entries.items():
        tops = entry.tensor.tops
        assert entry.tensor == found[1].entries[key].tensor.under(tops), key
        channels_then = found[1].entries[key].channels
        if channels_then is not None and entry.channels is not None:
            channels_then = channels_then.under(entry.channels.tops)
        assert entry.channels == channels_then, key
        assert entry.samples == found[1].entries[key].samples, key
    if make is net and channels == "none":
        assert {"relu", "turned", "back", "joined", "joined_relu", "flat"} == set(found[0].derived)


def test_nothing_but_derived_values() -> None:
    """Then they are looked at: an engine has something to return."""
    ctx = new_context()
    kind = TensorType(f32, [2])
    block = Block(arg_types=[kind])
    relu = nn.ReluOp(block.args[0])
    relu.attributes[nn.KEY] = StringAttr("relu")
    block.add_ops([relu, ReturnOp(relu.results[0])])
    module = ModuleOp([FuncOp("main", ((kind,), (kind,)), Region(block))])
    plan = instrument(module, ctx)
    leave_derived(plan, ctx, False)
    assert plan.derived() == {}
    assert [entry.keys for entry in plan.measured] == [("relu",)]


def test_sources_come_in_any_order_and_circles_are_left_out() -> None:
    entry = Entry(observe(np.float32([-1, 2])), None, {0: (-1.0, 2.0)})
    rules = {
        "c": Derived(("b",)),
        "b": Derived(("a", "a"), low=0.0),
        "x": Derived(("y",)),
        "y": Derived(("x",)),
        "z": Derived(("none",)),
    }
    found = with_derived({"a": entry}, rules)
    assert set(found) == {"a", "b", "c"}
    tensor = found["c"].tensor
    assert tensor == observe(np.float32([0, 2, 0, 2])).under(tensor.tops)
    assert derive(Derived(("a",)), [entry]).samples == {0: (-1.0, 2.0)}
