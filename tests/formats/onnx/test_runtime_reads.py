"""What ONNX Runtime reads and counts, where onnx's checker and its inference say otherwise."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx_models import ModelBuilder

import qdialect as qd
from tests.support.commands import call, qopt

SAME = ("NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def runtime(model: onnx.ModelProto, **feeds: Any) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Else it folds `Shape` to what onnx infers, which is not what it counts.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)


def drawn_pool(draw: random.Random) -> onnx.ModelProto:
    """A pool, a second one behind it, and the shape of what comes out."""
    kind, opset = draw.choice(("MaxPool", "AveragePool", "LpPool")), draw.choice((18, 19, 22))
    pair = range(2)
    kernel, strides = [[draw.randint(1, 4) for _ in pair] for _ in pair]
    spatial = [draw.randint(1, 12) for _ in pair]
    more: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
    more["ceil_mode"] = draw.choice((0, 1, 0, 1, 4, -1))  # the runtime takes others than 1 for no
    if (kind, opset) != ("AveragePool", 18) and draw.random() < 0.5:
        more["dilations"] = [draw.randint(1, 3) for _ in pair]
    mode = draw.choice(SAME)
    if mode == "NOTSET":
        more["pads"] = [draw.randint(0, min(kernel) - 1) for _ in range(4)]
    else:
        more["auto_pad"] = mode
    nodes = [
        helper.make_node(kind, ["x"], ["p"], "p", **more),
        helper.make_node(kind, ["p"], ["y"], kernel_shape=[1, 1], strides=[2, 2], ceil_mode=1),
        helper.make_node("Shape", ["y"], ["s"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, *spatial])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    s = helper.make_tensor_value_info("s", TensorProto.INT64, [4])
    graph = helper.make_graph(nodes, "g", [x], [y, s])
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize("seed", range(4))
def test_pools_have_as_many_windows_as_in_the_runtime(seed: int, tmp_path: Path) -> None:
    draw, path, compared = random.Random(seed), tmp_path / "m.onnx", 0
    for _ in range(25):
        model = drawn_pool(draw)
        dims = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
        x = np.random.default_rng(0).normal(size=dims).astype(np.float32)
        try:
            y, shape = runtime(model, x=x)
        except Exception:  # of whatever kind the runtime raises
            continue
        onnx.save(model, path)
        loaded = qd.load(path)
        for found in (qd.run(loaded, {"x": x}), qd.run(qd.optimize(loaded), {"x": x})):
            np.testing.assert_array_equal(found["s"], shape)
            np.testing.assert_allclose(found["y"], y, rtol=1e-5, atol=1e-6)
        compared += 1
    assert compared > 12


@pytest.mark.parametrize("opset", [18, 19, 20])
def test_group_normalization_before_its_definition_changed(opset: int, tmp_path: Path) -> None:
    b = ModelBuilder(opset)
    scale, bias = (b.const(name, np.full(4, 2), np.float32) for name in "sb")
    b.node("GroupNormalization", [b.input("x", [1, 8, 4]), scale, bias], "y", num_groups=4)
    b.output("y", shape=[1, 8, 4])
    optimized(b.model(check=False), tmp_path, [1, 8, 4])


def test_an_op_of_the_runtime_in_the_default_domain(tmp_path: Path) -> None:
    b = ModelBuilder()
    scale = b.const("s", np.ones(3), np.float32)
    b.node("SimplifiedLayerNormalization", [b.input("x", [2, 3]), scale], "y", axis=-1)
    b.output("y", shape=[2, 3])
    optimized(b.model(check=False), tmp_path, [2, 3])


@pytest.mark.parametrize("key", ["qdialect.future", "qdialect.", "other"])
def test_a_graph_without_a_name_and_metadata_nobody_knows(key: str, tmp_path: Path) -> None:
    b = ModelBuilder(name="")
    b.node("Relu", [b.input("x", [3])], "y")
    b.output("y", shape=[3])
    model = b.model(check=False)
    model.metadata_props.add(key=key, value="[1")
    optimized(model, tmp_path, [3])


def optimized(model: onnx.ModelProto, folder: Path, shape: list[int]) -> None:
    """What the command writes has the same bits in the runtime."""
    source, output = folder / "m.onnx", folder / "o.onnx"
    onnx.save(model, source)
    done = call(qopt, "optimize", str(source), "-o", str(output), "--race", "0")
    assert done.code == 0 and "left out" not in done.err
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    for one, two in zip(runtime(model, x=x), runtime(onnx.load(output), x=x), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", ["Upsample", "Foo"])
def test_what_the_runtime_refuses_is_refused(kind: str, tmp_path: Path) -> None:
    b = ModelBuilder()
    b.node(kind, [b.input("x", [1, 1, 2, 2]), b.const("s", np.ones(4), np.float32)], "y")
    b.output("y", shape=[1, 1, 2, 2])
    onnx.save(b.model(check=False), tmp_path / "m.onnx")
    with pytest.raises(qd.InputError, match="not a valid ONNX model"):
        qd.load(tmp_path / "m.onnx")


MOST = 10**12
#: nodes that make 10^12 elements from constants
LARGE: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "range": ("Range", [np.int64(0), np.int64(MOST), np.int64(1)], {}),
    "range-of-floats": ("Range", [np.float32(0), np.float32(MOST), np.float32(1)], {}),
    "constant": ("ConstantOfShape", [np.array([MOST])], {}),
    "expand": ("Expand", [np.ones(1, np.float32), np.array([MOST])], {}),
    "tile": ("Tile", [np.ones(2, np.float32), np.array([MOST])], {}),
    "one-hot": ("OneHot", [np.array([1]), np.int64(MOST), np.ones(2, np.float32)], {}),
    "pad": ("Pad", [np.ones(2, np.float32), np.array([0, MOST])], {}),
    "random": ("RandomNormal", [], {"shape": [MOST]}),
    "outer": ("Mul", [np.ones((10**6, 1), np.float32), np.ones((1, 10**6), np.float32)], {}),
    "window": ("HannWindow", [np.int64(MOST)], {}),
}


@pytest.mark.parametrize("place", ["graph", "branch", "function"])
@pytest.mark.parametrize("name", LARGE)
def test_what_constants_make_is_not_computed(name: str, place: str, tmp_path: Path) -> None:
    kind, operands, attributes = LARGE[name]
    names = [f"c{i}" for i in range(len(operands))]
    inner = [helper.make_node(kind, names, ["big"], **attributes)]
    inner += [helper.make_node("Cast", ["big"], ["f"], to=1)]
    inner += [helper.make_node("ReduceMax", ["f"], ["r"], keepdims=0)]
    b = ModelBuilder()
    b.input("x", [4])
    constants = [
        helper.make_node("Constant", [], [n], value=onnx.numpy_helper.from_array(np.asarray(v)))
        for n, v in zip(names, operands, strict=True)
    ]
    functions: list[onnx.FunctionProto] = []
    if place == "graph":
        b.nodes += [*constants, *inner]
    elif place == "branch":
        r = helper.make_tensor_value_info("r", TensorProto.FLOAT, [])
        taken = helper.make_graph([*constants, *inner], "t", [], [r])
        other = helper.make_graph(
            [helper.make_node("ReduceMax", ["x"], ["o"], keepdims=0)],
            "e", [], [helper.make_tensor_value_info("o", TensorProto.FLOAT, [])],
        )  # fmt: skip
        b.const("c", True)
        b.node("If", ["c"], "r", then_branch=taken, else_branch=other)
    else:
        opsets = [helper.make_opsetid("", 17)]
        functions.append(helper.make_function("own", "F", [], ["r"], [*constants, *inner], opsets))
        b.node("F", [], "r", domain="own")
    b.node("Add", ["x", "r"], "y")
    b.output("y", shape=[4])
    model = b.model(check=False)
    model.functions.extend(functions)
    onnx.save(model, tmp_path / "m.onnx")
    done = call(qopt, "inspect", str(tmp_path / "m.onnx"))
    assert done.code == 0, done.err
