"""LSTM and GRU in and out of ONNX."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx_models import ModelBuilder, load, ops, roundtrip
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.interpreter import Interpreter
from qdialect.ir.ops import shape_of
from qdialect.passes.lowering.lower_composites import LowerComposites
from qdialect.plugins.mlir.read import verify_module
from qdialect.quantizer.profile.instrument import instrument
from qdialect.targets.base import Target

GATES = {"LSTM": 4, "GRU": 3}


def model(
    op: str,
    outputs: list[str],
    absent: str = "",
    steps: Any = 5,
    batch: Any = 2,
    lengths: bool = False,
    **attributes: Any,
) -> ModelBuilder:
    """One node with all its inputs but those named in `absent`, one letter each; the lengths are
    an input of the model where `lengths`."""
    rng = np.random.default_rng(3)
    dirs, rows = 1 + (attributes.get("direction") == "bidirectional"), GATES[op] * 6
    shapes = {"w": (dirs, rows, 3), "r": (dirs, rows, 6), "b": (dirs, 2 * rows)}
    states = {"h": (dirs, 2, 6), "c": (dirs, 2, 6), "p": (dirs, 18)}
    b = ModelBuilder()
    names = [b.input("x", [steps, batch, 3])]
    names += [
        "" if name in absent else b.const(name, rng.normal(size=shape), np.float32)
        for name, shape in shapes.items()
    ]
    constant = [5, attributes.pop("length", 5)]
    if lengths:
        names.append(b.input("l", [batch], np.int32))
    else:
        names.append("" if "l" in absent else b.const("l", constant, np.int32))
    names += [
        "" if name in absent else b.const(name, rng.normal(size=shape), np.float32)
        for name, shape in (states if op == "LSTM" else {"h": states["h"]}).items()
    ]
    b.node(op, names, outputs, hidden_size=6, **attributes)
    for name in outputs:
        if name:
            b.output(name)
    return b


@pytest.mark.parametrize("absent", ["", "l", "blhcp", "lc", "lhcb", "p", "lhp"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("op", "outputs"),
    [
        *product(("LSTM", "GRU"), (["y"], ["y", "last"], ["", "last"])),
        ("LSTM", ["y", "last", "cell"]),
        ("LSTM", ["", "", "cell"]),
    ],
)
@pytest.mark.parametrize("length", [5, 3])
def test_round_trip(op: str, outputs: list[str], direction: str, absent: str, length: int) -> None:
    b = model(op, outputs, absent, direction=direction, length=length)
    module, written = roundtrip(b.model())
    assert [name for name in ops(module) if name != "nn.constant"] == [f"nn.{op.lower()}"]
    (node,) = written.graph.node
    assert node.op_type == op and list(node.output) == outputs


@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_lengths_at_run_time(op: str) -> None:
    b = model(op, ["y", "last"], "hcp", lengths=True, direction="bidirectional")
    ctx, module = load(b.model())
    assert ops(module) == [f"nn.{op.lower()}"]
    x = np.random.default_rng(1).normal(size=(5, 2, 3)).astype(np.float32)
    lengths = np.array([2, 4], np.int32)
    session = onnxruntime.InferenceSession(b.model().SerializeToString())
    expected: Any = session.run(None, {"x": x, "l": lengths})
    whole = Interpreter(ctx, module).run([x, lengths])
    LowerComposites(numerics="ties").apply(ctx, module)
    verify_module(module, ctx)
    assert not composites(module)
    pieces = Interpreter(ctx, module).run([x, lengths])
    for want, *got in zip(expected, whole, pieces, strict=True):
        for array in got:
            np.testing.assert_allclose(array, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("linear", [0, 1])
def test_reset(linear: int) -> None:
    module, _ = roundtrip(model("GRU", ["y"], linear_before_reset=linear).model())
    assert ops(module) == ["nn.gru"]


def test_dynamic_batch_and_length() -> None:
    b = model("LSTM", ["y"], "lhcp", steps="s", batch="n")
    module, _ = roundtrip(b.model(), s=4, n=3)
    assert ops(module) == ["nn.lstm"]


@pytest.mark.parametrize(("op", "states"), [("LSTM", "hc"), ("GRU", "h")])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_one_state_for_a_dynamic_batch(op: str, states: str, direction: str) -> None:
    b = model(op, ["y", "last"], "lhcp", steps="s", batch="n", direction=direction)
    (node,) = b.model().graph.node
    dirs = 1 + (direction == "bidirectional")
    for state in states:
        b.input(state, [dirs, 1, 6])
    inputs = [*node.input[:4], "", *states]
    made = b.model()
    del made.graph.node[0].input[:]
    made.graph.node[0].input.extend(inputs)
    module, written = roundtrip(made, s=4, n=1)
    assert ops(module) == [f"nn.{op.lower()}"]
    # The runtime takes as many states as sequences, so the one is repeated.
    assert [n.op_type for n in written.graph.node].count("Expand") == len(states)


@pytest.mark.parametrize(
    ("outputs", "attributes"),
    [
        (["y"], {"clip": 0.5}),
        (["y"], {"input_forget": 1}),
        (["y"], {"activations": ["Sigmoid", "Relu", "Tanh"]}),
    ],
)
def test_stays_a_node(outputs: list[str], attributes: dict[str, Any]) -> None:
    module, _ = roundtrip(model("LSTM", outputs, **attributes).model())
    assert ops(module) == ["onnx.node"]


def test_last_state_of_a_dynamic_length() -> None:
    b = model("GRU", ["", "last"], "lh", steps="s")
    assert ops(roundtrip(b.model(), s=4)[0]) == ["nn.gru"]


@pytest.mark.parametrize("absent", ["", "lhcp", "lp"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "linear"), [("LSTM", None), ("GRU", 0), ("GRU", 1)])
@pytest.mark.parametrize("length", [5, 2])
def test_pieces_are_the_op(
    op: str, linear: int | None, direction: str, absent: str, length: int
) -> None:
    attributes: Any = {} if linear is None else {"linear_before_reset": linear}
    outputs = ["y", "last", "cell"][: 3 if op == "LSTM" else 2]
    b = model(op, outputs, absent, direction=direction, length=length, **attributes)
    ctx, module = load(b.model())
    x = np.random.default_rng(1).normal(size=(5, 2, 3)).astype(np.float32)
    expected = Interpreter(ctx, module).run([x])
    seen = instrument(module, ctx)
    keys = [key for entry in seen.observed for key in entry.keys]
    roles = ctx.components[f"nn.{op.lower()}"].roles_of(next(iter(composites(module))))
    numbered = {f"y_node#{n}" for n in range(1, len(outputs))}
    assert set(keys) == {"y_node", *numbered, *(f"y_node/{role}" for role in roles[:-1])}
    LowerComposites(numerics="ties").apply(ctx, module)
    verify_module(module, ctx)
    assert not list(composites(module))
    for got, want in zip(Interpreter(ctx, module).run([x]), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def composites(module: ModuleOp) -> list[Operation]:
    return [op for op in module.walk() if op.name in ("nn.lstm", "nn.gru")]


def test_all_steps_are_one_entry() -> None:
    ctx, module = load(model("LSTM", ["y"], "lhcp").model())
    seen = instrument(module, ctx)
    (hidden,) = [entry.value for entry in seen.observed if "y_node/hidden" in entry.keys]
    assert shape_of(hidden) == (10, 6)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ("s", "known when it runs only"),
        (1000, "1000 steps in 1 direction are about 22000 ops, and at most 16384"),
    ],
)
def test_long_and_dynamic_sequences_stay_whole(steps: Any, reason: str) -> None:
    ctx, module = load(model("LSTM", ["y"], "lhcp", steps=steps).model())
    LowerComposites(numerics="ties").apply(ctx, module)
    assert composites(module)
    (remark,) = ctx.remarks.remarks
    assert reason in remark.reason


def test_the_target_says_how_many_pieces() -> None:
    ctx, module = load(model("LSTM", ["y"], "lhcp").model())
    ctx.target = Target("npu", "", most_pieces=100)
    LowerComposites(numerics="ties").apply(ctx, module)
    assert "5 steps" in ctx.remarks.remarks[0].reason
