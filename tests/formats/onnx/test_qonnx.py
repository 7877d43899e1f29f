"""QONNX's ops: imported, interpreted and written as ops that any runtime has."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import Array, ModelBuilder, export, load, ops
from qonnx_models import (
    ROUNDING,
    float_quant,
    node_model,
    quant,
    samples,
    trunc_1,
    trunc_2,
)

import qdialect as qd
from qdialect.errors import InputError
from qdialect.interpreter import Interpreter
from qdialect.ir.quant import quant_element
from qdialect.plugins.onnx.write import OrtEngine
from qdialect.plugins.onnx.write.engine import loads
from qdialect.targets.installed import get_target
from qdialect.workflows.optimize_file import FileOptimization
from qdialect.workflows.run import open_engine

SHAPE = (2, 3, 50)


def check(model: onnx.ModelProto, x: Array, expected: Array) -> tuple[Any, onnx.ModelProto]:
    """Interpreted, and in ONNX Runtime as it is written, the model gives what is expected."""
    ctx, module = load(model)
    feeds = {"x": x}
    got = Interpreter(ctx, module).run(feeds)[0]
    np.testing.assert_array_equal(got, expected)
    written = export(ctx, module)
    assert all(node.domain in ("", "com.microsoft") for node in written.graph.node)
    np.testing.assert_array_equal(OrtEngine(written, optimize=False).run(feeds)["y"], expected)
    return module, written


def storages(module: Any) -> list[str]:
    """The storage of what is quantized."""
    kinds = (quant_element(op.results[0].type) for op in module.walk() if op.results)
    return [str(kind.qparams.storage) for kind in kinds if kind is not None]


# -- Quant ----------------------------------------------------------------------------------


@pytest.mark.parametrize("narrow", [0, 1])
@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("bits", range(2, 9))
def test_codes_of_few_bits_are_a_range_of_storage(bits: int, signed: int, narrow: int) -> None:
    x = samples(0.125, SHAPE, bits)
    model = node_model("Quant", SHAPE, [0.125, 0, bits], signed=signed, narrow=narrow)
    module, _ = check(model, x, quant(x, 0.125, 0, bits, bool(signed), bool(narrow)))
    assert ops(module) == ["quant.qcast", "quant.dcast"]
    low, high = (-(2 ** (bits - 1)) + narrow, 2 ** (bits - 1) - 1) if signed else (0, 0)
    high = high if signed else 2**bits - 1 - narrow
    full = (-128, 127) if signed else (0, 255)
    bounds = "" if (low, high) == full else f"<{low}:{high}>"
    assert storages(module) == [f"{'i' if signed else 'u'}8{bounds}"]


@pytest.mark.parametrize("bits", [9, 12, 16])
@pytest.mark.parametrize("signed", [0, 1])
def test_wide_codes(bits: int, signed: int) -> None:
    x = samples(0.001, SHAPE, bits) * 300
    model = node_model("Quant", SHAPE, [0.001, 0, bits], signed=signed, narrow=0)
    module, _ = check(model, x, quant(x, 0.001, 0, bits, bool(signed)))
    assert storages(module)[0].startswith("i16" if signed else "u16")


@pytest.mark.parametrize("bits", [20, 24, 32])
def test_codes_of_accumulators_stay_floats(bits: int) -> None:
    x = samples(0.001, SHAPE, bits) * 1e7
    model = node_model("Quant", SHAPE, [0.001, 0, bits], signed=1, narrow=0)
    module, _ = check(model, x, quant(x, 0.001, 0, bits))
    assert "quant.qcast" not in ops(module)


@pytest.mark.parametrize("mode", ROUNDING)
@pytest.mark.parametrize("zero", [0, 3])
def test_rounding_modes(mode: str, zero: int) -> None:
    x = samples(0.3, SHAPE, 5, zero)
    model = node_model("Quant", SHAPE, [0.3, zero, 4], signed=1, narrow=0, rounding_mode=mode)
    module, _ = check(model, x, quant(x, 0.3, zero, 4, mode=mode))
    assert storages(module)[-1] == "i8<-8:7>"


def test_a_mode_that_nobody_defines_stays() -> None:
    model = node_model("Quant", SHAPE, [0.3, 0, 4], signed=1, narrow=0, rounding_mode="DPU")
    assert ops(load(model)[1]) == ["onnx.node"]


@pytest.mark.parametrize("zero", [1, 2, 128, 7.5, -3, 300])
def test_zero_points_are_added_before_rounding(zero: float) -> None:
    x = samples(0.1, SHAPE, 2, zero)
    model = node_model("Quant", SHAPE, [0.1, zero, 8], signed=0, narrow=0)
    module, _ = check(model, x, quant(x, 0.1, zero, 8, signed=False))
    # Of those that no type has, floats.
    assert ("quant.dcast" in ops(module)) == (zero in (1, 2, 128))


@pytest.mark.parametrize("shape", [(1, 3, 1), (3, 1), (2, 1, 1), (1,), (1, 1, 1)])
@pytest.mark.parametrize("zero", [False, True])
def test_scales_broadcast(shape: tuple[int, ...], zero: bool) -> None:
    rng = np.random.default_rng(7)
    scale = rng.uniform(0.05, 0.5, shape).astype(np.float32)
    zeros = rng.integers(-3, 3, shape).astype(np.float32) * zero
    x = samples(scale, SHAPE, 3)
    model = node_model("Quant", SHAPE, [scale, zeros, 5], signed=1, narrow=1)
    module, _ = check(model, x, quant(x, scale, zeros, 5, narrow=True))
    kind = next(quant_element(op.operands[0].type) for op in module.walk() if "dcast" in op.name)
    assert kind is not None
    axes = {(1, 3, 1): 1, (3, 1): 1, (2, 1, 1): 0}
    assert kind.qparams.axis == axes.get(shape)


def test_scales_along_two_dimensions_stay_floats() -> None:
    scale = np.random.default_rng(7).uniform(0.05, 0.5, (2, 3, 1)).astype(np.float32)
    x = samples(scale, SHAPE, 3)
    model = node_model("Quant", SHAPE, [scale, 0, 5], signed=1, narrow=1)
    check(model, x, quant(x, scale, 0, 5, narrow=True))


def test_a_negative_scale_stays_a_float() -> None:
    x = samples(0.5, SHAPE, 3)
    model = node_model("Quant", SHAPE, [-0.5, 0, 5], signed=1, narrow=0)
    check(model, x, quant(x, -0.5, 0, 5))


def test_one_bit_is_a_sign() -> None:
    x = samples(0.5, SHAPE, 3)
    x.flat[:2] = 0.0, -0.0
    model = node_model("Quant", SHAPE, [0.5, 0, 1], signed=1, narrow=0)
    module, _ = check(model, x, quant(x, 0.5, 0, 1))
    assert storages(module)[-1] == "i8<-1:1>"
    check(
        node_model("Quant", SHAPE, [0.5, 0, 1], signed=0, narrow=0),
        x,
        quant(x, 0.5, 0, 1, signed=False),
    )


def test_computed_parameters_stay_floats() -> None:
    b = ModelBuilder()
    b.input("x", SHAPE)
    b.input("s", ())
    names = ["x", "s", b.const("z", 0, np.float32), b.const("b", 4, np.float32)]
    b.node("Quant", names, "y", domain="qonnx.custom_op.general", signed=1, narrow=0)
    b.output("y", np.float32, SHAPE)
    ctx, module = load(b.model(check=False))
    x, scale = samples(0.3, SHAPE, 1), np.array(0.3, np.float32)
    feeds = {"x": x, "s": scale}
    expected = quant(x, scale, 0, 4)
    np.testing.assert_array_equal(Interpreter(ctx, module).run(feeds)[0], expected)
    written = OrtEngine(export(ctx, module), optimize=False)
    np.testing.assert_array_equal(written.run(feeds)["y"], expected)


@pytest.mark.parametrize("domain", ["onnx.brevitas", "finn.custom_op.general"])
@pytest.mark.parametrize("op", ["Quant", "IntQuant"])
def test_older_names(domain: str, op: str) -> None:
    x = samples(0.25, SHAPE, 1)
    model = node_model(op, SHAPE, [0.25, 0, 3], domain=domain, signed=1, narrow=0)
    check(model, x, quant(x, 0.25, 0, 3))


@pytest.mark.parametrize("bits", [2.5, 0, -4, float("nan")])
def test_a_bit_width_is_a_whole_number(bits: float) -> None:
    with pytest.raises(InputError, match="is no bit width") as found:
        load(node_model("Quant", SHAPE, [0.25, 0, bits], signed=1, narrow=0))
    assert found.value.where is not None
    assert found.value.where.node == "y_node"


@pytest.mark.parametrize("mode", ROUNDING)
@pytest.mark.parametrize(("bits", "zero"), [(2, 0), (4, 1), (8, 0), (16, 5), (32, 0)])
def test_weights_become_codes(bits: int, zero: int, mode: str) -> None:
    scale = np.array([[0.5], [0.125], [0.3]], np.float32)
    w = samples(scale, (3, 40), bits)
    model = node_model("Quant", (), [scale, zero, bits], w, signed=1, narrow=1, rounding_mode=mode)
    x = np.zeros((3, 40), np.float32)
    module, _ = check(model, x, quant(w, scale, zero, bits, narrow=True, mode=mode))
    assert ops(module) == ["quant.dcast", "nn.add"]


def test_the_greatest_code_of_32_bits() -> None:
    w = np.array([1e30, -1e30, 2.0**31 - 64, 0.0], np.float32)
    model = node_model("Quant", (), [1.0, 0, 32], w, signed=1, narrow=0)
    check(model, np.zeros(4, np.float32), quant(w, 1.0, 0, 32))


# -- BipolarQuant, Trunc ----------------------------------------------------------------------


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("scale", [0.5, [[0.5], [0.25], [2.0]], -1.0])
def test_bipolar(scale: Any, constant: bool) -> None:
    x = samples(0.5, SHAPE, 3)
    x.flat[:2] = 0.0, -0.0
    expected = np.where(x >= 0, 1, -1) * np.asarray(scale, np.float32)
    model = node_model("BipolarQuant", SHAPE, [scale], x if constant else None)
    given = np.zeros_like(x) if constant else x
    check(model, given, expected.astype(np.float32))


@pytest.mark.parametrize("mode", ROUNDING)
@pytest.mark.parametrize("zero", [0, 4])
def test_trunc_1(mode: str, zero: int) -> None:
    x = samples(0.5, SHAPE, 3)
    model = node_model("Trunc", SHAPE, [0.5, zero, 9, 6], rounding_mode=mode)
    check(model, x, trunc_1(x, 0.5, zero, 9, 6, mode))


@pytest.mark.parametrize("mode", ROUNDING)
@pytest.mark.parametrize(("zero", "signed"), [(0, 1), (0, 0), (8, 0), (2, 1)])
def test_trunc_2(mode: str, zero: int, signed: int) -> None:
    x = samples(0.5, SHAPE, 3)
    parameters = [0.5, zero, 9, 2.0, 5]
    model = node_model("Trunc", SHAPE, parameters, rounding_mode=mode, signed=signed, narrow=0)
    module, _ = check(model, x, trunc_2(x, 0.5, zero, 2.0, 5, bool(signed), mode=mode))
    # A zero point of a half has no type.
    assert ("quant.dcast" in ops(module)) == (zero != 2)


# -- FloatQuant -------------------------------------------------------------------------------

FORMATS = {
    "f8E4M3FN": (4, 3, 7, 448.0),
    "f8E5M2": (5, 2, 15, 57344.0),
    "4 bits": (2, 1, 1, 6.0),
    "6 bits": (3, 2, 3, 28.0),
    "not all of its range": (4, 3, 7, 240.0),
    "more than its range": (4, 3, 8, 1e9),
    "no mantissa": (3, 0, 3, 16.0),
    "one bit of exponent": (1, 2, 1, 3.5),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("scale", [1.0, 0.3, [[1.0], [0.25], [2.0]]])
def test_small_floats(name: str, scale: Any) -> None:
    exponent, mantissa, bias, greatest = FORMATS[name]
    rng = np.random.default_rng(len(name))
    size = (2, 3, 2000)
    x = rng.normal(size=size) * 2.0 ** rng.integers(-20, 19, size)
    steps = rng.integers(-64, 64, size) * 2.0 ** rng.integers(-20, 14, size)
    x = np.where(rng.random(size) < 0.5, x, steps).astype(np.float32) * np.asarray(scale, "f4")
    parameters = [scale, exponent, mantissa, bias, greatest]
    flags = {"has_inf": 0, "has_nan": 0, "has_subnormal": 1, "saturation": 1}
    model = node_model("FloatQuant", size, parameters, opset=19, **flags)
    expected = float_quant(x, scale, exponent, mantissa, bias, greatest)
    module, _ = check(model, x, expected)
    assert storages(module) == ([name] if name.startswith("f8") else [])


@pytest.mark.parametrize("changed", [{"rounding_mode": "FLOOR"}, {"saturation": 0}])
def test_small_floats_that_nearest_does_not_say_stay(changed: dict[str, Any]) -> None:
    flags = {"has_inf": 0, "has_nan": 1, "has_subnormal": 1, "saturation": 1} | changed
    model = node_model("FloatQuant", SHAPE, [1.0, 4, 3, 7, 448.0], opset=19, **flags)
    assert ops(load(model)[1]) == ["onnx.node"]


# -- graphs -----------------------------------------------------------------------------------


def test_extents_are_known_behind_them() -> None:
    b = ModelBuilder()
    b.input("x", ("n", 3, 8, 8))
    names = [b.const("s", 0.1, np.float32), b.const("z", 0, np.float32)]
    names.append(b.const("b", 8, np.float32))
    domain = "qonnx.custom_op.general"
    b.node("Quant", ["x", *names], "xq", domain=domain, signed=1, narrow=0)
    rng = np.random.default_rng(1)
    b.const("w", rng.normal(size=(4, 3, 3, 3)), np.float32)
    b.node("Quant", ["w", *names], "wq", domain=domain, signed=1, narrow=1)
    b.node("Conv", ["xq", "wq"], "c")
    b.node("Quant", ["c", *names], "cq", domain=domain, signed=1, narrow=0)
    b.node("GlobalAveragePool", ["cq"], "p")
    b.node("Flatten", ["p"], "y")
    b.output("y", np.float32, ("n", 4))
    ctx, module = load(b.model(check=False))
    kinds = [str(op.results[0].type) for op in module.walk() if op.name == "nn.conv2d"]
    assert kinds == ["tensor<?x4x6x6xf32>"]
    assert "onnx.node" not in ops(module)
    assert [e.domain for e in export(ctx, module).opset_import].count("") == 1


# -- Clip of codes ----------------------------------------------------------------------------


def clipped(low: Any, high: Any, scale: Any = 0.1, zero: Any = 0, storage: str = "u8") -> Any:
    b = ModelBuilder()
    b.input("x", SHAPE)
    stored = b.quantize("x", scale, zero, storage, axis=1)
    dtype = {"u8": np.uint8, "i8": np.int8}[storage]
    bounds = [b.const("lo", low, dtype), b.const("hi", high, dtype)]
    b.node("Clip", [stored, *bounds], "c")
    b.dequantize("c", "y", "x_s", "x_z", 1, scale)
    b.output("y", np.float32, SHAPE)
    return b.model()


@pytest.mark.parametrize(
    ("low", "high", "more"),
    [
        (0, 15, {}),
        (0, 254, {}),
        (-7, 7, {"storage": "i8"}),
        (0, 15, {"scale": [0.1, 0.2, 0.3], "zero": [0, 0, 0]}),
        (0, 15, {"zero": 20}),
        (1, 15, {"scale": [0.1, 0.2, 0.3], "zero": [0, 0, 0]}),
        (0, 15, {"scale": [0.1, 0.2, 0.3], "zero": [0, 7, 200]}),
    ],
)
def test_clip_of_a_quantize_is_a_range_of_storage(
    low: int, high: int, more: dict[str, Any]
) -> None:
    model = clipped(low, high, **more)
    x = samples(0.1, SHAPE, 4)
    expected = OrtEngine(model, optimize=False).run({"x": x})["y"]
    module, written = check(model, x, expected)
    if more.get("zero") is None or max(np.ravel(more["zero"])) <= high:
        assert ops(module) == ["quant.qcast", "quant.dcast"]
        assert storages(module) == [f"{more.get('storage', 'u8')}<{low}:{high}>"]
    assert [n.op_type for n in written.graph.node][:2] == ["QuantizeLinear", "Clip"]


@pytest.mark.parametrize(("low", "high"), [(1, 15), (137, 255), (15, 15), (0, 99)])
def test_other_bounds_are_of_values(low: int, high: int) -> None:
    model = clipped(low, high, zero=3)
    x = samples(0.1, SHAPE, 4)
    module, _ = check(model, x, OrtEngine(model, optimize=False).run({"x": x})["y"])
    assert ops(module) == ["quant.qcast", "nn.clip", "quant.dcast"]


@pytest.mark.parametrize("high", [7, 3])
def test_clip_of_weights_is_computed(high: int) -> None:
    b = ModelBuilder()
    b.input("x", (2, 4))
    codes = np.random.default_rng(1).integers(-7, 8, (4, 5)).astype(np.int8)
    b.const("w", codes)
    bounds = [b.const("lo", -high, np.int8), b.const("hi", high, np.int8)]
    b.node("Clip", ["w", *bounds], "wc")
    b.const("s", np.linspace(0.1, 0.5, 5), np.float32)
    b.const("z", np.zeros(5), np.int8)
    b.dequantize("wc", "wd", "s", "z", 1, [1])
    b.node("MatMul", ["x", "wd"], "y")
    b.output("y", np.float32, (2, 5))
    model = b.model()
    x = np.random.default_rng(2).integers(-9, 9, (2, 4)).astype(np.float32)
    module, written = check(model, x, OrtEngine(model, optimize=False).run({"x": x})["y"])
    assert storages(module)[0] == f"i8<-{high}:{high}>"
    assert [n.op_type for n in written.graph.node] == ["DequantizeLinear", "MatMul"]


# -- files ------------------------------------------------------------------------------------


def network(bits: int) -> onnx.ModelProto:
    """Two products of few bits, with biases that are floats."""
    b = ModelBuilder()
    x = b.input("x", (4, 16))
    rng = np.random.default_rng(bits)
    for n, (rows, columns) in enumerate([(24, 16), (8, 24)]):
        size = 8 if n == 0 else bits
        names = [x, b.const(f"s{n}", 0.05, np.float32), b.const(f"z{n}", 0, np.float32)]
        names.append(b.const(f"n{n}", size, np.float32))
        kept = {"domain": "qonnx.custom_op.general", "narrow": 0, "signed": int(n == 0)}
        b.node("Quant", names, f"q{n}", **kept)
        weight = rng.normal(size=(rows, columns)) * 0.4
        names = [b.const(f"w{n}", weight, np.float32), b.const(f"t{n}", 0.37, np.float32)]
        names += [f"z{n}", b.const(f"m{n}", bits, np.float32)]
        b.node("Quant", names, f"v{n}", **{**kept, "signed": 1, "narrow": 1})
        b.const(f"b{n}", rng.normal(size=rows) * 0.1, np.float32)
        b.node("Gemm", [f"q{n}", f"v{n}", f"b{n}"], f"g{n}", transB=1)
        x = b.node("Relu", [f"g{n}"], f"r{n}")
    names = [x, b.const("s", 0.004, np.float32), "z0", b.const("n", 8, np.float32)]
    b.node("Quant", names, "y", domain=kept["domain"], narrow=0, signed=0)
    b.output("y", np.float32, (4, 8))
    return b.model(check=False)


def meaning(model: onnx.ModelProto, x: Array) -> Array:
    """The model by the formulas."""
    known = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer} | {"x": x}
    for node in model.graph.node:
        given = [known[name] for name in node.input]
        flags = {a.name: a.i for a in node.attribute}
        if node.op_type == "Quant":
            made = quant(*given[:3], int(given[3]), bool(flags["signed"]), bool(flags["narrow"]))
        elif node.op_type == "Gemm":
            made = given[0] @ given[1].T + given[2]
        else:
            made = np.maximum(given[0], 0)
        known[node.output[0]] = made.astype(np.float32)
    return known["y"]


@pytest.mark.parametrize("bits", [2, 4])
def test_a_file_that_no_runtime_runs_is_optimized(bits: int, tmp_path: Path) -> None:
    model = network(bits)
    source, path = tmp_path / "source.onnx", tmp_path / "out.onnx"
    onnx.save(model, source)
    assert not loads(source)
    work = FileOptimization(
        source, path, get_target("onnxruntime"), "exact", samples=1, seconds=0.2
    )
    work.run()
    assert not work.dropped
    # What the file says took part in the race.
    assert work.choice is not None and "the input" in work.choice.race.laps
    x = np.random.default_rng(3).normal(size=(4, 16)).astype(np.float32)
    expected = meaning(model, x)
    plain = OrtEngine(path, optimize=False).run({"x": x})["y"]
    executed = OrtEngine(path, optimize=True).run({"x": x})["y"]
    np.testing.assert_allclose(plain, expected, atol=0.0041)
    # Its own rewriting rounds biases to steps of the products, 0.0185, where the file as it says
    # won the race.
    np.testing.assert_allclose(executed, plain, atol=0.03)
    assert {"Gemm", "MatMul"}.isdisjoint(
        node.op_type for node in optimized_graph(path) if node.op_type != "QGemm"
    )


def optimized_graph(path: Path) -> Sequence[onnx.NodeProto]:
    """The nodes that the runtime makes of a file."""
    saved = path.with_name("executed.onnx")
    OrtEngine(path, optimize=True, saved=saved)
    return onnx.load(saved, load_external_data=False).graph.node


def test_a_file_runs_as_what_it_says(tmp_path: Path) -> None:
    source = tmp_path / "source.onnx"
    onnx.save(network(4), source)
    model = qd.load(source)
    assert model.source is None
    x = np.random.default_rng(3).normal(size=(4, 16)).astype(np.float32)
    (found,) = open_engine(model, "onnxruntime")({"x": x}).values()
    np.testing.assert_array_equal(found, Interpreter(model.ctx, model.module).run([x])[0])


# -- QONNX itself -------------------------------------------------------------------------------


def executed(model: onnx.ModelProto, x: Array) -> Array:
    wrapper = pytest.importorskip("qonnx.core.modelwrapper", reason="qonnx is not installed")
    execute = pytest.importorskip("qonnx.core.onnx_exec").execute_onnx
    return execute(wrapper.ModelWrapper(model), {"x": x})["y"]


def halves(x: Array) -> Array:
    return np.where(x >= 0, 1, -1) * np.float32(0.5)


def _cases() -> Sequence[tuple[str, list[Any], dict[str, Any], Any]]:
    signs = {"signed": 1, "narrow": 0}
    found: list[tuple[str, list[Any], dict[str, Any], Any]] = [
        ("BipolarQuant", [0.5], {}, halves),
    ]
    for mode in ROUNDING:
        for zero in (0, 3):
            more = {**signs, "rounding_mode": mode}
            formula = partial(quant, scale=0.3, zero=zero, bits=4, mode=mode)
            found.append(("Quant", [0.3, zero, 4], more, formula))
        rounding = {"rounding_mode": mode}
        cut = partial(trunc_1, scale=0.3, zero=3, before=9, after=6, mode=mode)
        found.append(("Trunc", [0.3, 3, 9, 6], rounding, cut))
        cut = partial(trunc_2, scale=0.3, zero=8, new=2.4, bits=5, mode=mode)
        found.append(("Trunc", [0.3, 8, 9, 2.4, 5], {**signs, **rounding}, cut))
    for exponent, mantissa, bias, greatest in FORMATS.values():
        flags = {"has_inf": 0, "has_nan": 0, "has_subnormal": 1, "saturation": 1}
        parts = {"exponent": exponent, "mantissa": mantissa, "bias": bias}
        formula = partial(float_quant, scale=0.3, greatest=greatest, **parts)
        found.append(("FloatQuant", [0.3, exponent, mantissa, bias, greatest], flags, formula))
    return found


@pytest.mark.parametrize(("op", "parameters", "flags", "formula"), _cases())
def test_the_formulas_are_those_of_qonnx(
    op: str, parameters: list[Any], flags: dict[str, Any], formula: Any
) -> None:
    x = samples(0.3, (100, 1000), 9)
    model = node_model(op, x.shape, parameters, **flags)
    if len(parameters) == 5 and op == "Trunc":
        next(e for e in model.opset_import if e.domain).version = 2
    np.testing.assert_array_equal(formula(x), executed(model, x))
