"""ONNX graphs that ONNX Runtime runs, through `qopt optimize --numerics exact`.

Each graph of `command_graphs` was refused, crashed or changed once, and is named for what it has.
The result has the same bits, also where symbolic dimensions are 0, 1 and 7, and no pass is left out
(see `support/command_checks.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from qdialect.errors import InputError
from qdialect.plugins.onnx.write import OrtEngine
from tests.support.command_checks import command_failure
from tests.support.graph_checks import Case

GRAPHS = sorted((Path(__file__).parent / "command_graphs").glob("*.onnx"))
PAIR = "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)"
PARAMETERS = "float s = {0.1}, uint8 z = {3}"


def parsed(
    body: str, takes: str, gives: str, constants: str = "", opset: int = 21, domains: str = ""
) -> onnx.ModelProto:
    """A model from the text of its nodes."""
    initializers = f"<{constants}>" if constants else ""
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}{domains}]> '
        f"g ({takes}) => ({gives}) {initializers} {{ {body} }}"
    )


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_same_bits(path: Path, tmp_path: Path) -> None:
    assert command_failure(onnx.load(path), tmp_path)[0] == ""


MICROSOFT = ', "com.microsoft": 1'
UNKNOWN_TO_THE_CHECKER = {
    "op_of_the_runtime": parsed(
        f"{PAIR} y = SimplifiedLayerNormalization<axis = -1>(d, w)",
        "float[N, 4] x",
        "float[N, 4] y",
        f"{PARAMETERS}, float[4] w = {{1, 2, 3, 4}}",
        opset=17,
    ),
    "op_of_the_runtime_in_an_opset_that_is_raised": parsed(
        "d = DequantizeLinear(x, s) y = SimplifiedLayerNormalization<axis = -1>(d, w)",
        "uint8[N, 4] x",
        "float[N, 4] y",
        "float s = {0.1}, float[4] w = {1, 2, 3, 4}",
        opset=10,
    ),
    "deprecated_op": parsed(
        f"{PAIR} y = GroupNormalization<num_groups = 2>(d, w, w)",
        "float[N, 4, 3] x",
        "float[N, 4, 3] y",
        f"{PARAMETERS}, float[2] w = {{1, 2}}",
        opset=18,
    ),
    "domain_without_version": parsed(
        f"{PAIR} y = ai.onnx.ml.Scaler<offset = [1.0], scale = [0.5]>(d)",
        "float[N, 4] x",
        "float[N, 4] y",
        PARAMETERS,
    ),
}


@pytest.mark.parametrize("name", UNKNOWN_TO_THE_CHECKER)
def test_what_the_checker_refuses_is_read(name: str, tmp_path: Path) -> None:
    assert command_failure(UNKNOWN_TO_THE_CHECKER[name], tmp_path)[0] == ""


def test_a_graph_without_a_name_is_read(tmp_path: Path) -> None:
    model = parsed(f"{PAIR} y = Relu(d)", "float[N, 4] x", "float[N, 4] y", PARAMETERS)
    model.graph.name = ""
    assert command_failure(model, tmp_path)[0] == ""


def test_what_the_runtime_refuses_too_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(parsed("y = Rlu(x)", "float[4] x", "float[4] y"), path)
    with pytest.raises(InputError, match="No Op registered for Rlu"):
        qd.load(path)


OPTIONAL = {
    "range_without_a_step": parsed(
        "l = ReduceMax<keepdims = 0>(x) y = com.microsoft.Range(a, l)",
        "float[N] x",
        "float[M] y",
        "float a = {-2.0}",
        domains=MICROSOFT,
    ),
    "shape_of_two_dimensions": parsed(
        "c = ConstantOfShape<value = int64[1] {9}>(a) f = Cast<to = 1>(c) y = Add(x, f)",
        "float[N, 1] x",
        "float[N, 2] y",
        "int64[1, 1] a = {2}",
    ),
    "arg_max_of_codes": parsed(
        f"{PAIR} y = ArgMax<axis = -1, keepdims = 2, select_last_index = 3>(d)",
        "float[N, 3, 5] x",
        "int64[N, 3, M] y",
        PARAMETERS,
    ),
    "arg_min_of_an_open_rank": parsed(
        f"{PAIR} t = Shape(d) r = Reshape(d, t) y = ArgMin<axis = 1, keepdims = 0>(r)",
        "float[N, M, K] x",
        "int64[N, K] y",
        PARAMETERS,
    ),
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_shapes_of_unusual_operands(name: str, tmp_path: Path) -> None:
    assert command_failure(OPTIONAL[name], tmp_path)[0] == ""


@pytest.mark.parametrize("bias", [[], ["", "c"]])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_dynamic_products_of_matrices(count: int, bias: list[str], tmp_path: Path) -> None:
    """The runtime reads a scale for each column, whatever the tensor of scales holds, and
    multiplies the bias with it."""
    constants = [
        numpy_helper.from_array(np.arange(16, dtype=np.uint8).reshape(4, 2, 2), "b"),
        numpy_helper.from_array(np.full(count, 0.05, np.float32), "s"),
        numpy_helper.from_array(np.array([0.5, -2], np.float32), "c"),
    ]
    inputs = ["x", "b", "s", *bias]
    node = helper.make_node("DynamicQuantizeMatMul", inputs, ["y"], domain="com.microsoft")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, "N", 2]) for n in "xy")
    graph = helper.make_graph([node], "g", [x], [y], constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    assert command_failure(model, tmp_path)[0] in ("", "invalid")


# -- extents that are 0 or 1 at run time ----------------------------------------------------------

WEIGHTS = "int8[4, 2] w = {1, -2, 3, 4, -5, 6, 7, -8}, float t = {0.02}, int8 o = {0}"
OPEN: dict[str, tuple[str, str]] = {
    "add": ("y = Add(d, d)", "float[N, M] y"),
    "transpose": ("y = Transpose<perm = [1, 0]>(d)", "float[M, N] y"),
    "concat": ("y = Concat<axis = 0>(d, d)", "float[K, M] y"),
    "flat": ("r = Reshape(d, f) y = Relu(r)", "float[K] y"),
    "product": (
        "g = Reshape(d, r4) v = DequantizeLinear(w, t, o) y = MatMul(g, v)",
        "float[K, 2] y",
    ),
    "softmax": ("y = Softmax<axis = 1>(d)", "float[N, M] y"),
    "sum": ("y = ReduceSum<keepdims = 1>(d, one)", "float[N, 1] y"),
    "slice": ("y = Slice(d, zero, one, zero)", "float[K, M] y"),
    "pad": ("y = Pad(d, p)", "float[K, M] y"),
    "tile": ("y = Tile(d, p2)", "float[K, M] y"),
    "where": ("b = Greater(d, s) y = Where(b, d, s)", "float[N, M] y"),
    "shape": ("h = Shape(d) c = ConstantOfShape(h) y = Add(c, d)", "float[N, M] y"),
    "split": ("a, b = Split<axis = 1, num_outputs = 2>(d) y = Neg(a)", "float[N, K] y"),
}
CONSTANTS = (
    f"{PARAMETERS}, {WEIGHTS}, int64[1] f = {{-1}}, int64[2] r4 = {{-1, 4}}, int64[1] one = {{1}}, "
    "int64[1] zero = {0}, int64[4] p = {1, 0, 0, 0}, int64[2] p2 = {2, 1}"
)


@pytest.mark.parametrize("name", OPEN)
def test_extents_that_are_0_or_1(name: str, tmp_path: Path) -> None:
    body, gives = OPEN[name]
    model = parsed(
        f"{PAIR} {body} e = QuantizeLinear(d, s, z)",
        "float[N, M] x",
        f"{gives}, uint8[N, M] e",
        CONSTANTS,
    )
    assert command_failure(model, tmp_path)[0] == ""
    source, result = (OrtEngine(tmp_path / n, optimize=False) for n in ("m.onnx", "out.onnx"))
    ran = 0
    for shape in ((0, 4), (1, 4), (4, 0), (4, 1), (0, 0), (1, 1), (1, 0), (0, 1)):
        inputs: dict[str, Any] = {"x": np.linspace(-9, 9, shape[0] * shape[1], dtype=np.float32)}
        inputs["x"] = inputs["x"].reshape(shape)
        try:
            expected = source.run(inputs)
        except InputError:
            continue
        ran += 1
        for key, array in result.run(inputs).items():
            assert array.shape == expected[key].shape
            np.testing.assert_array_equal(array, expected[key])
    assert ran >= 2


def test_the_check_tries_extents_of_0_1_and_7(tmp_path: Path) -> None:
    case = Case.of(parsed("y = Relu(x)", "float[N] x", "float[N] y"), extents=True)
    assert {feeds["x"].shape for feeds in case.feeds} >= {(0,), (1,), (7,)}
    assert command_failure(case.model, tmp_path)[0] == ""


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_padded_pools_with_dilated_windows(op: str, mode: str, tmp_path: Path) -> None:
    """The runtime pads them as if they were not dilated, and shape inference as they are."""
    nodes = [
        f'y{n} = {op}<kernel_shape = [{k}], strides = [{s}], dilations = [2], auto_pad = "{mode}">'
        f"(x{n})"
        for n, k, s in ((5, 3, 2), (7, 3, 1), (8, 2, 2))
    ]
    model = parsed(
        " ".join(nodes),
        "float[1, 1, 5] x5, float[1, 1, 7] x7, float[1, 1, 8] x8",
        "float[1, 1, A] y5, float[1, 1, B] y7, float[1, 1, C] y8",
        opset=19,
    )
    assert command_failure(model, tmp_path)[0] == ""
    feeds = {f"x{n}": np.arange(n, dtype=np.float32).reshape(1, 1, n) for n in (5, 7, 8)}
    expected = OrtEngine(tmp_path / "m.onnx", optimize=False).run(feeds)
    for name, array in qd.run(qd.load(tmp_path / "m.onnx"), feeds).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-6)
