"""LSTM and GRU in and out of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_models import ModelBuilder, load, ops, roundtrip
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qdialect.formats.mlir.read import verify_module
from qdialect.ops import shape_of
from qdialect.passes.lowering.lower_composites import LowerComposites
from qdialect.profile.instrument import instrument
from qdialect.reference import Interpreter

GATES = {"LSTM": 4, "GRU": 3}


def model(
    op: str, outputs: list[str], absent: str = "", steps: Any = 5, batch: Any = 2, **attributes: Any
) -> ModelBuilder:
    """One node with all its inputs but those named in `absent`, one letter each."""
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
    names.append("" if "l" in absent else b.const("l", [5, attributes.pop("length", 5)], np.int32))
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
@pytest.mark.parametrize("outputs", [["y"], ["y", "last"], ["", "last"]])
@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_round_trip(op: str, outputs: list[str], direction: str, absent: str) -> None:
    b = model(op, outputs, absent, direction=direction)
    module, written = roundtrip(b.model())
    assert f"nn.{op.lower()}" in ops(module)
    assert "onnx.node" not in ops(module)
    assert op in [node.op_type for node in written.graph.node]


@pytest.mark.parametrize("linear", [0, 1])
def test_reset(linear: int) -> None:
    module, _ = roundtrip(model("GRU", ["y"], linear_before_reset=linear).model())
    assert ops(module) == ["nn.gru"]


def test_dynamic_batch_and_length() -> None:
    b = model("LSTM", ["y"], "lhcp", steps="s", batch="n")
    module, _ = roundtrip(b.model(), s=4, n=3)
    assert ops(module) == ["nn.lstm"]


@pytest.mark.parametrize(
    ("outputs", "attributes"),
    [
        (["y", "", "cell"], {}),
        (["y"], {"length": 3}),
        (["y"], {"clip": 0.5}),
        (["y"], {"activations": ["Sigmoid", "Relu", "Tanh"]}),
    ],
)
def test_stays_a_node(outputs: list[str], attributes: dict[str, Any]) -> None:
    module, _ = roundtrip(model("LSTM", outputs, **attributes).model())
    assert ops(module) == ["onnx.node"]


def test_last_state_of_a_dynamic_length_stays_a_node() -> None:
    b = model("GRU", ["", "last"], "lh", steps="s")
    assert ops(roundtrip(b.model(), s=4)[0]) == ["onnx.node"]


@pytest.mark.parametrize("absent", ["", "lhcp", "lp"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "linear"), [("LSTM", None), ("GRU", 0), ("GRU", 1)])
def test_pieces_are_the_op(op: str, linear: int | None, direction: str, absent: str) -> None:
    attributes = {} if linear is None else {"linear_before_reset": linear}
    ctx, module = load(model(op, ["y"], absent, direction=direction, **attributes).model())
    x = np.random.default_rng(1).normal(size=(5, 2, 3)).astype(np.float32)
    (wanted,) = Interpreter(ctx, module).run([x])
    seen = instrument(module, ctx)
    keys = [key for entry in seen.observed for key in entry.keys]
    roles = ctx.components[f"nn.{op.lower()}"].roles_of(next(iter(composites(module))))
    assert set(keys) == {"y_node", *(f"y_node/{role}" for role in roles[:-1])}
    LowerComposites(numerics="ties").apply(ctx, module)
    verify_module(module, ctx)
    assert not list(composites(module))
    (got,) = Interpreter(ctx, module).run([x])
    assert np.allclose(got, wanted, rtol=1e-5, atol=1e-6)


def composites(module: ModuleOp) -> list[Operation]:
    return [op for op in module.walk() if op.name in ("nn.lstm", "nn.gru")]


def test_all_steps_are_one_entry() -> None:
    ctx, module = load(model("LSTM", ["y"], "lhcp").model())
    seen = instrument(module, ctx)
    (hidden,) = [entry.value for entry in seen.observed if "y_node/hidden" in entry.keys]
    assert shape_of(hidden) == (10, 6)


@pytest.mark.parametrize("steps", ["s", 257])
def test_long_and_dynamic_sequences_stay_whole(steps: Any) -> None:
    ctx, module = load(model("LSTM", ["y"], "lhcp", steps=steps).model())
    summary = LowerComposites(numerics="ties").apply(ctx, module)
    assert composites(module), summary
