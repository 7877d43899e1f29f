"""Models that were quantized by others, brought to targets by `qopt optimize` at `relaxed`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)

import qdialect as qd
from qdialect.ir.ops import constant_array, constant_of
from qdialect.ir.quant import quant_element
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.plugins.onnx.write.bodies import bodies_of
from qdialect.targets.base import Target
from qdialect.targets.installed import get_target
from qdialect.targets.kernels import Kernel
from qdialect.workflows.interface_codes import InterfaceCodes
from qdialect.workflows.taken import taken_of
from qdialect.workflows.target_report import refused_ops
from tests.support.commands import Result, call, qopt
from tests.vendors import dsp16, npu24, pow2_accelerator

SHAPE = (1, 3, 12, 12)


def run(*argv: object) -> Result:
    return call(qopt, *(str(a) for a in argv))


class Reader(CalibrationDataReader):
    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(1)
        self._left = iter([{"x": rng.normal(size=SHAPE).astype("f4")} for _ in range(count)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._left, None)


def network(path: Path, *, softmax: bool = True, prelu: bool = True) -> Path:
    """A small network of floats, with ops that not every target has whole."""
    rng = np.random.default_rng(5)
    shapes = {"w0": (8, 3, 3, 3), "b0": (8,), "s": (8, 1, 1), "w1": (8, 8, 3, 3), "w2": (5, 8)}
    weights = [
        numpy_helper.from_array(
            rng.normal(0, 1 / math.sqrt(max(np.prod(shape[1:]), 4)), shape).astype("f4"), name
        )
        for name, shape in shapes.items()
    ]
    middle = ("PRelu", ["c0", "s"]) if prelu else ("Relu", ["c0"])
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], "conv0", pads=[1, 1, 1, 1]),
        helper.make_node(*middle, ["r0"], "prelu"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c1", "r0"], ["a"], "add"),
        helper.make_node("Relu", ["a"], ["m"], "relu"),
        helper.make_node("GlobalAveragePool", ["m"], ["g"], "mean"),
        helper.make_node("Flatten", ["g"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "w2"], ["y"], "fc", transB=1),
        helper.make_node("Softmax", ["y"], ["p"], "softmax"),
    ]
    last = ("p", nodes) if softmax else ("y", nodes[:-1])
    graph = helper.make_graph(
        last[1],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(last[0], TensorProto.FLOAT, [1, 5])],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def by_onnxruntime(
    folder: Path, form: QuantFormat = QuantFormat.QDQ, *, per_channel: bool = False
) -> Path:
    path = folder / "q.onnx"
    quantize_static(
        network(folder / "n.onnx"),
        path,
        Reader(8),
        quant_format=form,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=per_channel,
    )
    return path


def by_us(folder: Path, target: str, suffix: str, *, plain: bool = False) -> Path:
    data = np.stack([sample["x"] for sample in iter(Reader(8).get_next, None)])
    np.savez(folder / "data.npz", x=data)
    model = qd.load(network(folder / "n.onnx", softmax=not plain, prelu=not plain))
    made = qd.quantize(model, data=folder / "data.npz", target=target).model
    qd.save(made, folder / f"ours{suffix}")
    return folder / f"ours{suffix}"


def answer(model: qd.Model, sample: Mapping[str, np.ndarray]) -> np.ndarray:
    """What a model gives for floats, in floats, whatever its interface is."""
    codes = InterfaceCodes(model)
    (found,) = codes.floats(list(qd.run(model, codes.codes(sample)).values()))
    return found


def near(first: qd.Model, second: qd.Model) -> float:
    """How near two models are, in dB."""
    signal = noise = 0.0
    for sample in iter(Reader(4).get_next, None):
        one, other = (answer(model, sample) for model in (first, second))
        signal, noise = signal + float((one**2).sum()), noise + float(((one - other) ** 2).sum())
    return math.inf if noise == 0 else 10 * math.log10(signal / noise)


SOURCES: dict[str, Callable[[Path], Path]] = {
    "qdq": by_onnxruntime,
    "qoperator": lambda folder: by_onnxruntime(folder, QuantFormat.QOperator),
    "per channel": lambda folder: by_onnxruntime(folder, per_channel=True),
    "tflite": lambda folder: by_us(folder, "litert", ".tflite"),
    "for another target": lambda folder: by_us(folder, "x86-without-vnni", ".mlir"),
}
FLOAT_INTERFACE = (dsp16.TARGET, pow2_accelerator.TARGET, get_target("qnn-htp"))


@pytest.mark.parametrize("source", SOURCES)
def test_a_target_without_floats_runs_all_of_it(source: str, tmp_path: Path) -> None:
    model = qd.load(SOURCES[source](tmp_path))
    for target in (*FLOAT_INTERFACE, npu24.TARGET):
        made = qd.optimize(model, target, "relaxed")
        assert refused_ops(made.module, made.ctx) == {}, target.name
        taken = taken_of(made.module, made.ctx, target)
        if not target.floats:
            assert taken.taken == taken.total > 5, target.name
        if target in FLOAT_INTERFACE:
            # Four scales of powers of two between 8 and 16 bits of a signal.
            assert near(model, made) > 20, target.name


def test_below_relaxed_values_stay_as_they_are(tmp_path: Path) -> None:
    model = qd.load(by_onnxruntime(tmp_path))
    made = qd.optimize(model, dsp16.TARGET, "saturation")
    assert "regrid" not in made.ctx.remarks.fired()
    assert refused_ops(made.module, made.ctx)


def test_what_a_target_takes_keeps_its_bits(tmp_path: Path) -> None:
    """Codes of u8 and weights of i8 per channel are what QNN takes: nothing is chosen again."""
    model = qd.load(by_us(tmp_path, "onnxruntime", ".onnx", plain=True))
    made = qd.optimize(model, "qnn-htp", "relaxed")
    assert "regrid" not in made.ctx.remarks.fired()
    assert refused_ops(made.module, made.ctx) == {}
    assert near(model, made) > 40


def weights(model: qd.Model, key: str) -> tuple[np.ndarray, Sequence[float]]:
    """The codes of the weights of the op with a key, less their zero points, and their scales."""
    for op in model.module.walk():
        attribute = op.attributes.get("nn.key")
        if attribute is None or key not in str(attribute) or len(op.operands) < 2:
            continue
        value = op.operands[1]
        if value.owner.name == "quant.dcast":  # type: ignore[union-attr]
            value = value.owner.operands[0]  # type: ignore[union-attr]
        constant, element = constant_of(value), quant_element(value.type)
        if constant is not None and element is not None:
            codes = constant_array(constant, model.ctx.blobs).astype(np.int64)
            zeros = element.qparams.zero_point_list()
            assert len(set(zeros)) == 1
            return codes - zeros[0], element.qparams.scale_list()
    raise AssertionError(key)


@pytest.mark.parametrize("target", [dsp16.TARGET, npu24.TARGET, get_target("qnn-htp")])
@pytest.mark.parametrize("key", ["conv0", "conv1"])
def test_weights_that_a_target_takes_stay(target: Target, key: str, tmp_path: Path) -> None:
    """In a wider storage, too: i16 has the codes of i8."""
    model = qd.load(by_onnxruntime(tmp_path))
    made = qd.optimize(model, target, "relaxed")
    assert made.ctx.remarks.fired()["regrid"] == 1
    (codes, scales), (again, kept) = weights(model, key), weights(made, key)
    assert scales == kept and np.array_equal(codes, again)


def test_refused_ops_of_a_target_without_floats_are_an_error(tmp_path: Path) -> None:
    source, out = by_onnxruntime(tmp_path), tmp_path / "out.mlir"
    command = ["optimize", source, "-o", out, "--target", "qnn-htp"]
    result = run(*command)
    assert result.code == 1 and not out.exists()
    assert "'qnn-htp' has no floats, and refuses 1 ops of the result" in result.err
    assert "note: 'nn.prelu' (prelu): no float arithmetic" in result.err
    assert "--numerics relaxed" in result.err
    result = run(*command, "--keep-refused")
    assert result.code == 0 and out.exists() and "1 op is left that 'qnn-htp' refuses" in result.err
    result = run(*command, "--numerics", "relaxed", "--force")
    assert result.code == 0, result.err
    assert "quantized again for 'qnn-htp', which runs 8 of 8 ops on codes" in result.err
    assert "compared with the original on 2 random inputs" in result.err


Nodes = list[onnx.NodeProto]
Constants = list[onnx.TensorProto]


def quantized(nodes: Nodes, made: Constants, value: str, name: str, scale: float) -> str:
    """A value quantized and dequantized by others; what it is called then."""
    made += [numpy_helper.from_array(np.float32(scale), f"{name}_s")]
    made += [numpy_helper.from_array(np.uint8(121), f"{name}_z")]
    pair = [f"{name}_s", f"{name}_z"]
    nodes += [
        helper.make_node("QuantizeLinear", [value, *pair], [f"{name}_q"], f"{name}_Q"),
        helper.make_node("DequantizeLinear", [f"{name}_q", *pair], [f"{name}_d"], f"{name}_DQ"),
    ]
    return f"{name}_d"


def layer(nodes: Nodes, made: Constants, value: str, name: str) -> str:
    codes = np.random.default_rng(len(name)).integers(-90, 90, (8, 8)).astype(np.int8)
    made += [numpy_helper.from_array(codes, f"{name}w")]
    made += [numpy_helper.from_array(np.float32(0.0075), f"{name}ws")]
    made += [numpy_helper.from_array(np.int8(0), f"{name}wz")]
    weights = [f"{name}w", f"{name}ws", f"{name}wz"]
    nodes += [
        helper.make_node("DequantizeLinear", weights, [f"{name}wd"], f"{name}wDQ"),
        helper.make_node("MatMul", [value, f"{name}wd"], [f"{name}m"], f"{name}matmul"),
    ]
    return quantized(nodes, made, f"{name}m", name, 0.03)


def with_bodies(path: Path, kind: str) -> Path:
    """Codes of u8 in the bodies of an If or a Loop, and behind it."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in "xz")
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    nodes, made = Nodes(), [numpy_helper.from_array(np.int64(3), "trip")]
    start = quantized(nodes, made, "x", "in", 0.02)

    def body(name: str, value: str, *others: onnx.ValueInfoProto) -> onnx.GraphProto:
        inner, constants = Nodes(), Constants()
        given = quantized(inner, constants, value, f"{name}in", 0.03)
        last = layer(inner, constants, layer(inner, constants, given, f"{name}a"), f"{name}bb")
        inner.append(helper.make_node("Identity", [last], [f"{name}out"]))
        out = helper.make_tensor_value_info(f"{name}out", TensorProto.FLOAT, [4, 8])
        results = [out]
        if others:
            inner.append(helper.make_node("Identity", [others[1].name], ["go_on"]))
            results.insert(0, helper.make_tensor_value_info("go_on", TensorProto.BOOL, []))
        return helper.make_graph(inner, name, others, results, constants)

    if kind == "If":
        branches = {"then_branch": body("t", start), "else_branch": body("e", start)}
        nodes.append(helper.make_node("If", ["flag"], ["y"], "node", **branches))
    else:
        count = helper.make_tensor_value_info("n", TensorProto.INT64, [])
        old = helper.make_tensor_value_info("old", TensorProto.BOOL, [])
        state = helper.make_tensor_value_info("state", TensorProto.FLOAT, [4, 8])
        loop = body("l", "state", count, old, state)
        nodes.append(helper.make_node("Loop", ["trip", "flag", start], ["y"], "node", body=loop))
    last = layer(nodes, made, quantized(nodes, made, "y", "mid", 0.03), "last")
    nodes.append(helper.make_node("Identity", [last], ["z"]))
    graph = helper.make_graph(nodes, "net", [x, flag], [y], made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("kind", ["If", "Loop"])
def test_bodies_are_quantized_again(kind: str, tmp_path: Path) -> None:
    """Codes in bodies are of 16 bits for a DSP that has no others, signed for an NPU of bytes; what
    bodies take and give stays, for a target whose functions take codes too."""
    model = qd.load(with_bodies(tmp_path / "bodies.onnx", kind))
    rng = np.random.default_rng(0)
    samples = [rng.uniform(-2, 2, (4, 8)).astype("f4") for _ in range(4)]
    for target, zeros in ((dsp16.TARGET, {np.dtype("i2")}), (npu24.TARGET, {np.dtype("i1")})):
        made = qd.optimize(model, target, "relaxed")
        (node,) = (
            op for op in made.module.walk() if isinstance(op, NodeOp) and op.op_type.data == kind
        )
        stored: set[np.dtype] = set()
        for body in bodies_of(node, made.module, made.ctx.blobs):
            arrays = {each.name: each for each in body.graph.initializer}
            casts = [each for each in body.graph.node if each.op_type == "QuantizeLinear"]
            assert casts
            stored |= {numpy_helper.to_array(arrays[each.input[2]]).dtype for each in casts}
        assert stored == zeros, target.name
        assert [bound.contract for bound in made.ctx.remarks.outputs] == ["relaxed"]
        signal = noise = 0.0
        for x in samples:
            given = {"x": x, "flag": np.array(True)}
            one, other = (answer(each, given) for each in (model, made))
            signal, noise = (
                signal + float((one**2).sum()),
                noise + float(((one - other) ** 2).sum()),
            )
        assert 10 * math.log10(signal / noise) > 25, target.name


def test_functions_that_are_called_are_quantized_again(tmp_path: Path) -> None:
    """Each function by itself, with what it calls."""
    path, scale = tmp_path / "calls.mlir", 0.013
    path.write_text(f"""
!f = tensor<4x8xf32>
!q = tensor<4x8x!quant.uniform<u8:f32, {scale}:121>>
func.func @main(%x: !f) -> !f {{
  %0 = quant.qcast %x : !f to !q
  %1 = quant.dcast %0 : !q to !f
  %2 = func.call @layer(%1) : (!f) -> !f
  %3 = func.call @layer(%2) : (!f) -> !f
  %4 = nn.add %3, %1 {{nn.key = "sum"}} : (!f, !f) -> !f
  %5 = quant.qcast %4 : !f to !q
  %6 = quant.dcast %5 : !q to !f
  return %6 : !f
}}
func.func private @layer(%x: !f) -> !f {{
  %0 = quant.qcast %x : !f to !q
  %1 = quant.dcast %0 : !q to !f
  %2 = nn.tanh %1 {{nn.key = "tanh"}} : (!f) -> !f
  %3 = quant.qcast %2 : !f to !q
  %4 = quant.dcast %3 : !q to !f
  return %4 : !f
}}
""")
    model, x = qd.load(path), np.random.default_rng(0).uniform(-1, 1, (4, 8)).astype("f4")
    for target in (dsp16.TARGET, npu24.TARGET):
        made = qd.optimize(model, target, "relaxed")
        assert made.ctx.remarks.fired()["regrid"] == 2
        assert refused_ops(made.module, made.ctx) == {}
        taken = taken_of(made.module, made.ctx, target)
        assert taken.taken >= 2 and not any(kind.refused for kind in taken.kinds)
        one, other = (answer(each, {"arg0": x}) for each in (model, made))
        assert ((one - other) ** 2).sum() < 1e-3 * (one**2).sum()


def test_an_interface_of_codes_that_a_target_has_not_becomes_floats() -> None:
    path = Path(__file__).parents[1] / "formats" / "torch" / "archives" / "static_int8.pt2"
    model = qd.load(path)
    made = qd.optimize(model, dsp16.TARGET, "relaxed")
    assert refused_ops(made.module, made.ctx) == {}
    kinds = made.function().function_type.outputs.data
    assert [quant_element(kind) for kind in kinds] == [None] * 4
    notes = [each.reason for each in made.ctx.remarks.remarks if each.code == "interface"]
    assert notes[0] == "result #1 is of floats now: dsp16: has no i8 tensors"
    # TensorRT's bytes have zero points of 0.
    made = qd.optimize(model, "tensorrt", "relaxed")
    assert refused_ops(made.module, made.ctx) == {}
    # These codes are of what it takes.
    kept = qd.optimize(model, "cmsis-nn", "relaxed").function().function_type
    assert kept == model.function().function_type


def test_slopes_in_pieces(tmp_path: Path) -> None:
    """TOSA has no PReLU: from floats, and from codes, of which each stays the same."""
    data = np.stack([sample["x"] for sample in iter(Reader(8).get_next, None)])
    np.savez(tmp_path / "data.npz", x=data)
    floats = qd.load(network(tmp_path / "n.onnx"))
    fitted = qd.quantize(floats, data=tmp_path / "data.npz", target="tosa").model
    served = qd.optimize(fitted, "tosa", "ties")
    assert near(floats, served) > 25
    codes = qd.quantize(floats, data=tmp_path / "data.npz", target=npu24.TARGET).model
    again = qd.optimize(codes, "tosa", "relaxed")
    assert "regrid" not in again.ctx.remarks.fired()
    assert again.ctx.remarks.fired()["lower-composite"] == 1
    assert near(codes, again) == math.inf
    for made in (served, again):
        taken = taken_of(made.module, made.ctx, get_target("tosa"))
        assert refused_ops(made.module, made.ctx) == {} and taken.taken == taken.total > 8


def test_a_target_that_contradicts_itself(tmp_path: Path) -> None:
    kernel = Kernel(("i8 scale=1/3", "i8"), ("i8",))
    target = Target(
        "npu",
        "has powers of two, and a kernel of thirds",
        storages=frozenset({"i8 scale=2^n", "i32"}),
        kernels={"nn.conv2d": (kernel,)},
    )
    said = (
        r"target 'npu' contradicts itself: operand #0 of 'nn.conv2d' is i8 scale=1/3, and tensors "
        r"are .*i8.* scale=2\^n"
    )
    model = qd.load(network(tmp_path / "n.onnx"))
    np.savez(tmp_path / "x.npz", x=np.zeros((2, *SHAPE), np.float32))
    with pytest.raises(qd.QError, match=said):
        qd.optimize(model, target)
    with pytest.raises(qd.QError, match=said):
        qd.quantize(model, data=tmp_path / "x.npz", target=target)
    for name in qd.list_targets():
        get_target(name).check()
