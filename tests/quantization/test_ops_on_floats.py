"""Ops of a quantized model that are faster on floats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from qdialect.cli.qopt import main
from qdialect.ir.ops import keys_of
from qdialect.quantizer.precision import Time
from qdialect.quantizer.recipe import Precision
from qdialect.targets.installed import get_target
from qdialect.workflows import ops_on_floats
from qdialect.workflows.ops_on_floats import with_ops_on_floats
from qdialect.workflows.optimize import optimize

DEPTH = 16
SCALES = (0.05, 0.1, 0.1, 0.2)
ZEROS = (128, 128, 0, 128)
"""Of the input and of each result: the codes of the second end at 0, so a ReLU is in them."""


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """Three products between casts, as QDQ files write them."""
    random = np.random.default_rng(5)
    tensors: dict[str, np.ndarray[Any, Any]] = {"ws": np.float32(0.01), "wz": np.int8(0)}
    nodes: list[onnx.NodeProto] = []

    def cast(kind: str, value: str, out: str, n: int) -> str:
        nodes.append(helper.make_node(kind, [value, f"s{n}", f"z{n}"], [out], out))
        return out

    for n, (scale, zero) in enumerate(zip(SCALES, ZEROS, strict=True)):
        tensors |= {f"s{n}": np.float32(scale), f"z{n}": np.uint8(zero)}
    value = cast("DequantizeLinear", cast("QuantizeLinear", "x", "q0", 0), "d0", 0)
    for n in (1, 2, 3):
        tensors[f"w{n}"] = random.integers(-90, 90, (DEPTH, DEPTH)).astype(np.int8)
        nodes.append(helper.make_node("DequantizeLinear", [f"w{n}", "ws", "wz"], [f"wd{n}"]))
        nodes.append(helper.make_node("MatMul", [value, f"wd{n}"], [f"m{n}"], f"product{n}"))
        value = cast("QuantizeLinear", f"m{n}", f"q{n}", n)
        value = cast("DequantizeLinear", value, f"d{n}" if n < 3 else "y", n)
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, DEPTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, DEPTH])],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in tensors.items()],
    )
    path = tmp_path / "chain.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return path


def found(chain: Path, monkeypatch: pytest.MonkeyPatch, on_floats: tuple[str, ...]) -> Any:
    """What is found where these products take a microsecond on floats, and the others on codes."""
    model, target = qd.load(chain), get_target("onnxruntime")

    def times() -> Iterator[Precision]:
        yield from (Precision.FLOAT, Precision.CODES)

    states = times()

    def attributed(function: Any, ctx: Any, nodes: Any) -> dict[int, Time]:
        state, known = next(states), dict[int, Time]()
        for number, op in enumerate(function.body.block.ops):
            if op.name == "nn.matmul":
                fast = (keys_of(op)[0] in on_floats) == (state is Precision.FLOAT)
                known[number] = Time(1e3 if fast else 1e9, False, False)
        return known

    monkeypatch.setattr(ops_on_floats, "attributed", attributed)
    x = np.random.default_rng(0).normal(size=(4, DEPTH)).astype("f4")
    return with_ops_on_floats(model, optimize(model, target, "relaxed"), target, {"x": x}, 0.05), x


def test_casts_between_ops_on_floats_go(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, x = found(chain, monkeypatch, ("product2", "product3"))
    assert (result.count, result.of) == (2, 3)
    text = str(result.model)
    # A ReLU was in the codes between the second and the third.
    assert text.count("nn.relu") == 1
    before, after = (qd.run(m, {"x": x})["y"] for m in (qd.load(chain), result.model))
    assert np.abs(before - after).max() < 3 * SCALES[2] * DEPTH


def test_nothing_is_changed_where_codes_are_faster(
    chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, _ = found(chain, monkeypatch, ())
    assert result is None


def test_a_model_without_codes_stays(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "floats",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    path = tmp_path / "floats.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    model, target = qd.load(path), get_target("onnxruntime")
    assert with_ops_on_floats(model, model, target, {"x": np.ones(4, "f4")}, 0.01) is None


def test_the_command_races_them_at_relaxed(
    chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o.onnx"
    flags = ["optimize", str(chain), "-o", str(out), "--numerics", "relaxed", "--race", "200ms"]
    assert main(flags) == 0
    x = np.random.default_rng(1).normal(size=(4, DEPTH)).astype("f4")
    one, other = (
        ort.InferenceSession(str(file), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        for file in (chain, out)
    )
    assert np.abs(np.asarray(one) - np.asarray(other)).max() < 3 * SCALES[2] * DEPTH
