"""Graphs on float16 at `exact`: the result has the bits of its source in ONNX Runtime.

The runtime computes most ops on float16 in float32, and rounds between some of them only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qdialect as qd
from qdialect.plugins.onnx.passes.pin_unrounded import PinUnrounded
from qdialect.plugins.onnx.write import OrtEngine, write_model

SHAPE = (2, 3, 4, 4)
OPS: Mapping[str, Mapping[str, Any]] = {
    # Rewrites move casts across the first five.
    "Relu": {},
    "Clip": {},
    "Identity": {},
    "Transpose": {"perm": [0, 1, 3, 2]},
    "MaxPool": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    "Abs": {},
    "Neg": {},
    "AveragePool": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    "Sigmoid": {},
    "LeakyRelu": {"alpha": 0.3},
    "Add": {},
    "Sub": {},
    "Mul": {},
    "Max": {},
    "Conv": {},
}


def graph(seed: int) -> onnx.ModelProto:
    """Casts of codes around up to two ops on float16, again and again."""
    rng = np.random.default_rng(seed)
    nodes = [helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16)]
    tensors = {
        "s0": np.float16(0.1),
        "s1": np.float16(rng.choice([0.0625, 0.03, 0.2])),
        "z": np.uint8(128),
        "c": rng.choice([0.5, 1.0, 1.3], (1, 3, 1, 1)).astype(np.float16),
        "low": np.float16(-1.5),
        "high": np.float16(2.0),
        "kernel": rng.normal(size=(3, 3, 1, 1)).astype(np.float16),
    }
    more = {"Clip": ["low", "high"], "Conv": ["kernel"]}
    made = ["h"]

    def add(op: str, *operands: str, **attributes: Any) -> None:
        made.append(f"v{len(nodes)}")
        nodes.append(helper.make_node(op, operands, [made[-1]], **attributes))

    def cast() -> None:
        params = str(rng.choice(["s0", "s0", "s1"])), "z"
        add("QuantizeLinear", made[-1], *params)
        add("DequantizeLinear", made.pop(), *params)

    cast()
    for _ in range(int(rng.integers(1, 4))):
        kinds = list(OPS)[: 5 if rng.random() < 0.6 else None]
        for op in rng.choice(kinds, int(rng.integers(1, 3))):
            if op in ("Add", "Sub", "Mul", "Max"):
                operands = [str(rng.choice(["c", made[-2]]))]
            else:
                operands = more.get(op, [])
            add(str(op), made[-1], *operands, **OPS[op])
        if rng.random() < 0.6:
            cast()
    if rng.random() < 0.8:
        add("Cast", made[-1], to=TensorProto.FLOAT)
    is_f32 = nodes[-1].op_type == "Cast"
    kind = TensorProto.FLOAT if is_f32 else TensorProto.FLOAT16
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    y = helper.make_tensor_value_info(made[-1], kind, SHAPE)
    initializers = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in tensors.items()]
    made_graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    model = helper.make_model(made_graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    return model


def differs(seed: int, folder: Path) -> bool:
    """Whether the optimized graph gives other bits than its source."""
    source = folder / f"{seed}.onnx"
    onnx.save(graph(seed), source)
    result = qd.optimize(qd.load(source), numerics="exact")
    written = write_model(result.module, result.ctx).whole()
    x = np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32) * 4
    first, second = (
        next(iter(OrtEngine(each, optimize=False).run({"x": x}).values())).tobytes()
        for each in (source, written)
    )
    return first != second


SEEDS = range(40)


def test_the_bits_stay(tmp_path: Path) -> None:
    assert not [seed for seed in SEEDS if differs(seed, tmp_path)]


def test_rewrites_would_change_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PinUnrounded, "apply", lambda *_: None)
    assert any(differs(seed, tmp_path) for seed in SEEDS)
