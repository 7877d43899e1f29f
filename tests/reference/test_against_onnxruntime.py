"""Float ops and casts against ONNX Runtime on the same operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scalar_oracle import CONTEXT, run
from xdsl.dialects.builtin import TensorType, f16, f32
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.qparams import QParams
from qdialect.interpreter import evaluate_op
from qdialect.ir import ops as nn
from qdialect.ir.quant import DCastOp, QCastOp, UniformType

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
RUNTIME = tuple(int(part) for part in ort.__version__.split(".")[:2])


def runtime(
    op: str, inputs: list[np.ndarray], output: Any, opset: int = 21, **attributes: Any
) -> Any:
    """One ONNX node on ONNX Runtime, nothing optimized."""
    helper = onnx.helper
    kind = helper.np_dtype_to_tensor_dtype
    names = [f"x{i}" for i in range(len(inputs))]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        "g",
        [
            helper.make_tensor_value_info(name, kind(a.dtype), a.shape)
            for name, a in zip(names, inputs, strict=True)
        ],
        [helper.make_tensor_value_info("y", kind(np.dtype(output)), None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(zip(names, inputs, strict=True)))[0]


RNG = np.random.default_rng(70)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


# -- casts: bit equality -------------------------------------------------------

LAYOUTS = [
    QParams.per_tensor("i8", 0.0371, 5),
    QParams.per_tensor("u8", 0.0371, 131),
    QParams.per_tensor("i16", 0.00371, -77),
    QParams.per_tensor("u16", 0.00371, 30000),
    QParams.per_axis("i8", 1, [0.1, 0.03, 0.011, 0.5], [1, -2, 3, 0]),
    QParams.per_axis("u8", 2, [0.1, 0.03, 0.011, 0.5, 0.25, 0.7], [1, 200, 3, 0, 9, 255]),
    QParams.blockwise("i8", [(2, 3)], [5, 4, 2], [0.1 + 0.01 * i for i in range(40)]),
]


def parameters(q: QParams) -> tuple[list[np.ndarray], dict[str, int]]:
    dtype = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16}[q.storage.spelling]
    arrays = [q.scale_array().astype(np.float32), q.zero_point_array().astype(dtype)]
    if q.is_per_tensor:
        return arrays, {}
    axis, block = q.blocks[0]
    blocks = np.broadcast_to(q.scale_array(), q.grid)
    grid = blocks.shape
    if len(grid) == 1:
        return arrays, {"axis": axis}
    return [a.reshape(grid) for a in arrays], {"axis": axis, "block_size": block}


@pytest.mark.parametrize("q", LAYOUTS, ids=lambda q: f"{q.storage}-{q.layout.value}")
def test_casts_are_bit_equal(q: QParams) -> None:
    arrays, attributes = parameters(q)
    scale = max(q.scale_list())
    ties = (RNG.integers(-70000, 70000, (5, 4, 6)) / 2).astype(np.float32) * np.float32(scale)
    storage = UniformType(q)
    for x in (normal(5, 4, 6) * 100 * scale, ties, ties / 200):
        x = x.astype(np.float32)
        value = create_ssa_value(TensorType(f32, x.shape))
        shape = TensorType(storage, x.shape)
        (stored,) = evaluate_op(QCastOp(value, shape), [x], CONTEXT)
        expected = runtime("QuantizeLinear", [x, *arrays], arrays[1].dtype, **attributes)
        assert np.array_equal(stored, expected)
        back = DCastOp(create_ssa_value(shape), TensorType(f32, x.shape))
        (real,) = evaluate_op(back, [stored], CONTEXT)
        expected = runtime("DequantizeLinear", [stored, *arrays], np.float32, **attributes)
        assert np.array_equal(real.view(np.int32), expected.view(np.int32))


def test_casts_of_what_is_no_number() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, -0.0], np.float32)
    for q in LAYOUTS[:4]:
        arrays, _ = parameters(q)
        op = QCastOp(
            create_ssa_value(TensorType(f32, x.shape)), TensorType(UniformType(q), x.shape)
        )
        (stored,) = evaluate_op(op, [x], CONTEXT)
        assert np.array_equal(stored, runtime("QuantizeLinear", [x, *arrays], arrays[1].dtype))


@pytest.mark.skipif(RUNTIME < (1, 30), reason="ONNX Runtime before 1.30 quantizes f16 otherwise")
def test_f16_casts_are_bit_equal() -> None:
    q = QParams.per_tensor("i16", float(np.float16(0.0337)), 5, "f16")
    x = (RNG.normal(size=20000) * 5).astype(np.float16)
    scale, zero = np.array(0.0337, np.float16), np.array(5, np.int16)
    shape = TensorType(UniformType(q), x.shape)
    (stored,) = evaluate_op(
        QCastOp(create_ssa_value(TensorType(f16, x.shape)), shape), [x], CONTEXT
    )
    assert np.array_equal(stored, runtime("QuantizeLinear", [x, scale, zero], np.int16))
    everything = np.arange(-(2**15), 2**15).astype(np.int16)
    shape = TensorType(UniformType(q), everything.shape)
    op = DCastOp(create_ssa_value(shape), TensorType(f16, everything.shape))
    (real,) = evaluate_op(op, [everything], CONTEXT)
    assert np.array_equal(real, runtime("DequantizeLinear", [everything, scale, zero], np.float16))


def test_scale_of_f32_is_the_double_rounded_to_f32() -> None:
    """MLIR keeps the double that was written; an f32 cast uses the nearest f32."""
    q = QParams.per_tensor("i8", 0.1, 0)
    x = normal(5000)
    value = create_ssa_value(TensorType(f32, x.shape))
    (stored,) = evaluate_op(QCastOp(value, TensorType(UniformType(q), x.shape)), [x], CONTEXT)
    arrays = [np.array(0.1, np.float32), np.array(0, np.int8)]
    assert np.array_equal(stored, runtime("QuantizeLinear", [x, *arrays], np.int8))


# -- float ops: close in units of f32 ---------------------------------------------

FLOAT_OPS: list[tuple[type, str, list[np.ndarray], dict[str, Any], dict[str, Any]]] = [
    (nn.AddOp, "Add", [normal(2, 3, 4), normal(3, 1)], {}, {}),
    (nn.SubOp, "Sub", [normal(2, 3, 4), normal(3, 1)], {}, {}),
    (nn.MulOp, "Mul", [normal(2, 3, 4), normal(3, 1)], {}, {}),
    (nn.DivOp, "Div", [normal(2, 3, 4), normal(3, 1)], {}, {}),
    (nn.MaximumOp, "Max", [normal(2, 3, 4), normal(3, 1)], {}, {}),
    (nn.MinimumOp, "Min", [normal(2, 3, 4), normal(3, 1)], {}, {}),
    (nn.ReluOp, "Relu", [normal(2, 3, 4)], {}, {}),
    (nn.SigmoidOp, "Sigmoid", [normal(200) * 8], {}, {}),
    (nn.TanhOp, "Tanh", [normal(200) * 4], {}, {}),
    (nn.LeakyReluOp, "LeakyRelu", [normal(200)], {"alpha": 0.125}, {"alpha": 0.125}),
    (
        nn.HardSigmoidOp,
        "HardSigmoid",
        [normal(200) * 4],
        {"alpha": 0.125, "beta": 0.5},
        {"alpha": 0.125, "beta": 0.5},
    ),
    (nn.HardSwishOp, "HardSwish", [normal(200) * 4], {}, {}),
    (nn.LrnOp, "LRN", [normal(2, 7, 3, 4)], {"size": 3, "alpha": 0.5}, {"size": 3, "alpha": 0.5}),
    (
        nn.LrnOp,
        "LRN",
        [normal(2, 9, 5, 2)],
        {"size": 5, "alpha": 0.25, "beta": 0.5, "bias": 2.0},
        {"size": 5, "alpha": 0.25, "beta": 0.5, "bias": 2.0},
    ),
    (nn.LayerNormOp, "LayerNormalization", [normal(3, 4, 5), normal(5), normal(5)], {}, {}),
    (
        nn.LayerNormOp,
        "LayerNormalization",
        [normal(3, 4, 5), normal(4, 5)],
        {"axis": 1, "epsilon": 0.5},
        {"axis": 1, "epsilon": 0.5},
    ),
    (
        nn.RmsNormOp,
        "RMSNormalization",
        [normal(3, 4, 5), normal(4, 5)],
        {"axis": 1, "epsilon": 0.5},
        {"axis": 1, "epsilon": 0.5},
    ),
    (nn.SoftmaxOp, "Softmax", [normal(3, 40, 2)], {"axis": 1}, {"axis": 1}),
    (
        nn.BatchNormOp,
        "BatchNormalization",
        [normal(2, 3, 4), normal(3), normal(3), normal(3), np.abs(normal(3))],
        {},
        {},
    ),
    (nn.MatMulOp, "MatMul", [normal(2, 1, 5, 40), normal(3, 40, 6)], {}, {}),
    (nn.MatMulOp, "MatMul", [normal(40), normal(3, 40, 6)], {}, {}),
    (nn.FullyConnectedOp, "Gemm", [normal(5, 40), normal(6, 40), normal(6)], {}, {"transB": 1}),
    (nn.GlobalAvgPool2DOp, "GlobalAveragePool", [normal(2, 3, 7, 9)], {}, {}),
    (
        nn.ReduceMaxOp,
        "ReduceMax",
        [normal(2, 3, 4, 5), np.array([1, -1])],
        {"axes": [1, -1], "keepdims": False},
        {"keepdims": 0},
    ),
    (nn.ReduceMinOp, "ReduceMin", [normal(2, 3, 4), np.array([2])], {"axes": [2]}, {}),
    (nn.ReduceMeanOp, "ReduceMean", [normal(2, 3, 4), np.array([0, 2])], {"axes": [0, 2]}, {}),
    (
        nn.ReduceSumOp,
        "ReduceSum",
        [normal(2, 3, 4), np.array([0, 1, 2])],
        {"axes": [0, 1, 2], "keepdims": False},
        {"keepdims": 0},
    ),
    (nn.ConcatOp, "Concat", [normal(2, 3), normal(2, 5)], {"axis": 1}, {"axis": 1}),
]
for _case in (
    {},
    {"strides": [2, 1], "pads": [1, 0, 2, 1]},
    {"dilations": [2, 1], "pads": [2, 2, 2, 2], "strides": [1, 2]},
    {"groups": 2},
    {"groups": 4, "strides": [2, 2], "pads": [0, 1, 1, 0]},
):
    _channels = 4 // _case.get("groups", 1)
    _onnx = {("group" if k == "groups" else k): v for k, v in _case.items()}
    _inputs = [normal(2, 4, 9, 8), normal(8, _channels, 3, 2), normal(8)]
    FLOAT_OPS.append((nn.Conv2DOp, "Conv", _inputs, _case, _onnx))
for _case in (
    {},
    {"strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"strides": [2, 2], "ceil_mode": True},
    {"strides": [2, 3], "pads": [1, 0, 1, 1], "ceil_mode": True},
):
    _onnx = {"kernel_shape": [3, 3], **_case, "ceil_mode": int(_case.get("ceil_mode", False))}
    _case = {"kernel": [3, 3], **_case}
    FLOAT_OPS.append((nn.MaxPool2DOp, "MaxPool", [normal(2, 3, 8, 9)], _case, _onnx))
    FLOAT_OPS.append((nn.AvgPool2DOp, "AveragePool", [normal(2, 3, 8, 9)], _case, _onnx))
    FLOAT_OPS.append(
        (
            nn.AvgPool2DOp,
            "AveragePool",
            [normal(2, 3, 8, 9)],
            {**_case, "count_include_pad": True},
            {**_onnx, "count_include_pad": 1},
        )
    )

for _rank, _size in ((1, (9,)), (3, (5, 6, 4))):
    _case = {"strides": [2] * _rank, "pads": [1, 0, 1, 0, 1, 1][: 2 * _rank]}
    _kernel = [3, 2, 2][:_rank]
    _inputs = [normal(2, 4, *_size), normal(6, 2, *_kernel), normal(6)]
    FLOAT_OPS.append(
        (nn.CONVOLUTIONS[_rank - 1], "Conv", _inputs, {**_case, "groups": 2}, {**_case, "group": 2})
    )
    for _kinds, _name in ((nn.MAX_POOLS, "MaxPool"), (nn.AVERAGE_POOLS, "AveragePool")):
        _inputs = [normal(2, 3, *_size)]
        _given = {"kernel": _kernel, **_case}
        FLOAT_OPS.append(
            (_kinds[_rank - 1], _name, _inputs, _given, {"kernel_shape": _kernel, **_case})
        )
    FLOAT_OPS.append(
        (nn.GLOBAL_AVERAGE_POOLS[_rank - 1], "GlobalAveragePool", [normal(2, 3, *_size)], {}, {})
    )
for _rank, _size in ((1, (9,)), (2, (5, 4)), (3, (3, 4, 2))):
    for _case in (
        {},
        {"strides": [2, 3, 2][:_rank], "output_padding": [1, 2, 0][:_rank]},
        {"dilations": [2, 1, 2][:_rank], "pads": [2, 0, 1, 1, 0, 1][: 2 * _rank]},
        {"groups": 2, "strides": [2] * _rank, "pads": [1] * 2 * _rank},
        {"groups": 4},
    ):
        _onnx = {("group" if k == "groups" else k): v for k, v in _case.items()}
        _channels = 1 if _case.get("groups") == 4 else 3
        _weight = normal(4, _channels, *[3, 2, 2][:_rank])
        _inputs = [normal(2, 4, *_size), _weight, normal(_channels * _case.get("groups", 1))]
        FLOAT_OPS.append((nn.TRANSPOSED[_rank - 1], "ConvTranspose", _inputs, _case, _onnx))


@pytest.mark.parametrize(
    "case", FLOAT_OPS, ids=[f"{i}-{case[1]}" for i, case in enumerate(FLOAT_OPS)]
)
def test_float_ops(
    case: tuple[type, str, list[np.ndarray], dict[str, Any], dict[str, Any]],
) -> None:
    op, name, inputs, properties, attributes = case
    if attributes.get("ceil_mode"):
        fixed = (1, 25) if attributes.get("count_include_pad") else (1, 21)
        if fixed > RUNTIME:
            pytest.skip("this ONNX Runtime gets ceil_mode wrong")
    floats = [(x, f32) for x in inputs if x.dtype == np.float32]
    got = run(op, floats, f32, **properties)
    opset = 23 if name == "RMSNormalization" else 21
    if opset == 23 and RUNTIME < (1, 23):
        pytest.skip("this ONNX Runtime has no RMSNormalization")
    expected = runtime(name, inputs, np.float32, opset, **attributes)
    assert got.dtype == np.float32
    assert got.shape == expected.shape
    assert np.allclose(got, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.skipif(RUNTIME < (1, 23), reason="this ONNX Runtime has no Attention")
@pytest.mark.parametrize("masked", [True, False])
def test_attention(masked: bool) -> None:
    inputs = [normal(2, 3, 5, 8), normal(2, 3, 7, 8), normal(2, 3, 7, 4)]
    if masked:
        inputs.append(np.where(normal(5, 7) > 0.5, np.float32(-1e9), np.float32(0)))
    got = run(nn.AttentionOp, [(x, f32) for x in inputs], f32, scale=0.25)
    expected = runtime("Attention", inputs, np.float32, opset=23, scale=0.25)
    assert np.allclose(got, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", ["Add", "Mul"])
def test_f16_ops_round_once(name: str) -> None:
    a, b = normal(2000).astype(np.float16), normal(2000).astype(np.float16)
    op = {"Add": nn.AddOp, "Mul": nn.MulOp}[name]
    got = run(op, [(a, f16), (b, f16)], f16)
    assert got.dtype == np.float16
    assert np.array_equal(got, runtime(name, [a, b], np.float16))


def recurrent_inputs(gates: int, dirs: int, extra: int) -> list[np.ndarray]:
    """X, W, R, B of five steps, and `extra` of the states and peepholes."""
    more = [normal(dirs, 2, 6), normal(dirs, 2, 6), normal(dirs, 18)][:extra]
    weights = [normal(dirs, gates * 6, 3), normal(dirs, gates * 6, 6)]
    return [normal(5, 2, 3), *weights, normal(dirs, 2 * gates * 6), *more]


def recurrent_runtime(op: str, inputs: list[np.ndarray], **attributes: Any) -> Any:
    lengths = [np.full(2, 5, np.int32)] if len(inputs) > 4 else []
    given = [*inputs[:4], *lengths, *inputs[4:]]
    return runtime(op, given, np.float32, hidden_size=6, **attributes)


@pytest.mark.parametrize("extra", [0, 2, 3])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lstm(direction: str, extra: int) -> None:
    inputs = recurrent_inputs(4, 1 + (direction == "bidirectional"), extra)
    got = run(nn.LstmOp, [(x, f32) for x in inputs], f32, direction=direction)
    expected = recurrent_runtime("LSTM", inputs, direction=direction)
    assert got.shape == expected.shape
    assert np.allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_gru(direction: str, linear: bool, extra: int) -> None:
    inputs = recurrent_inputs(3, 1 + (direction == "bidirectional"), extra)
    operands = [(x, f32) for x in inputs]
    got = run(nn.GruOp, operands, f32, direction=direction, linear_before_reset=linear)
    expected = recurrent_runtime(
        "GRU", inputs, direction=direction, linear_before_reset=int(linear)
    )
    assert got.shape == expected.shape
    assert np.allclose(got, expected, rtol=1e-5, atol=1e-5)
