"""An ONNX model is defined in floats, op by op: `exact` gives the bits that ONNX Runtime gives
with its optimizations off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_models import Array
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block

from qdialect import api
from qdialect.algebra.arithmetic import Arithmetic, requantized
from qdialect.algebra.requantize import QuantGrid
from qdialect.algebra.rounding import Rounding
from qdialect.interpreter import Interpreter
from qdialect.ir.context import new_context
from qdialect.ir.quant import arithmetic_of
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import OrtEngine, write_model

pytest.importorskip("onnxruntime")

HERE = Path(__file__).parent / "float_arithmetic"
DTYPES = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32}


def ran(source: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array]:
    return list(OrtEngine(source, optimize=False).run(inputs).values())


def imported(source: onnx.ModelProto) -> api.Model:
    ctx = new_context()
    return api.Model(import_model(source, ctx), ctx)


def chain(
    codes: Array, grids: list[tuple[str, float, int]], between: list[onnx.NodeProto] | None = None
) -> onnx.ModelProto:
    """Codes on the first grid, requantized to the others in turn; `between` compute from
    "r0", what the first is dequantized to, to "r"."""
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []
    value = "x"
    for n, (storage, scale, zero) in enumerate(grids):
        names = [f"s{n}", f"z{n}"]
        constants += [
            numpy_helper.from_array(np.float32(scale), names[0]),
            numpy_helper.from_array(np.array(zero, DTYPES[storage]), names[1]),
        ]
        if n:
            nodes.append(helper.make_node("QuantizeLinear", [value, *names], [f"q{n}"]))
            value = f"q{n}"
        if n < len(grids) - 1:
            nodes.append(helper.make_node("DequantizeLinear", [value, *names], [f"r{n}"]))
            value = f"r{n}"
            if between and not n:
                nodes += between
                value = "r"
    kinds = [
        helper.np_dtype_to_tensor_dtype(np.dtype(DTYPES[k])) for k in (grids[0][0], grids[-1][0])
    ]
    shape = list(codes.shape)
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", kinds[0], shape)],
        [helper.make_tensor_value_info(value, kinds[1], shape)],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def minmax_scale(rng: np.random.Generator) -> float:
    """As calibrators write them: the largest value lies half way between two codes."""
    return float(np.float32(2) * np.float32(abs(rng.normal()) * 8 + 1e-3) / np.float32(255))


def every_code(storage: str) -> Array:
    info = np.iinfo(DTYPES[storage])
    if storage == "i32":
        near = np.arange(-300, 300)
        return np.concatenate([near, near * 7919, [info.min, info.max]]).astype(np.int32)
    return np.arange(info.min, info.max + 1).astype(DTYPES[storage])


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("result", ["i8", "u8", "i16", "u16"])
def test_a_rescale_in_floats_is_what_the_runtime_computes(source: str, result: str) -> None:
    rng = np.random.default_rng(len(source) * 7 + len(result))
    codes, bounds = every_code(source), np.iinfo(DTYPES[result])
    low, high = int(codes.min()), int(codes.max())
    tiny, huge = 2.0**-149, 2.0**127
    first, second = minmax_scale(rng), minmax_scale(rng)
    pairs = [(first, second), (first, first / 2), (second, 2 * second), (0.1, 0.3)]
    pairs += [(tiny, tiny), (3 * tiny, 1.0), (huge, 1.0), (huge, tiny), (1.0, tiny), (1.0, huge)]
    for scale, other in pairs:
        scale, other = float(np.float32(scale)), float(np.float32(other))
        zero = 0 if source == "i32" else int(rng.integers(low, high + 1))
        to_zero = int(rng.integers(bounds.min, bounds.max + 1))
        model = chain(codes, [(source, scale, zero), (result, other, to_zero)])
        a = QuantGrid(scale, zero, low, high)
        b = QuantGrid(other, to_zero, int(bounds.min), int(bounds.max))
        got = requantized(codes, a, b, Rounding.HALF_EVEN, "f32")
        assert np.array_equal(ran(model, {"x": codes})[0], got), (scale, other)


def test_the_arithmetic_is_part_of_the_module(tmp_path: Path) -> None:
    model = imported(onnx.load(HERE / "rescales_meet_ties.onnx"))
    assert arithmetic_of(model.module) is Arithmetic.EXPRESSED
    for suffix in (".mlir", ".mlirbc"):
        path = tmp_path / f"m{suffix}"
        api.save(model, path)
        assert arithmetic_of(api.load(path).module) is Arithmetic.EXPRESSED
    inner = api.run_passes(model, "canonicalize").module.body.block.first_op
    assert inner is not None and arithmetic_of(inner) is Arithmetic.EXPRESSED


@pytest.mark.parametrize("name", sorted(path.stem for path in HERE.glob("*.onnx")))
def test_exact_keeps_the_bits_that_run(name: str) -> None:
    source = onnx.load(HERE / f"{name}.onnx")
    inputs: dict[str, Array] = {}
    for value in source.graph.input:
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        codes = every_code(next(k for k, dtype in DTYPES.items() if dtype == kind))
        inputs[value.name] = np.resize(codes, (int(np.ceil(256 / np.prod(shape))), *shape))
    expected = imported(source)
    count = max((len(array) for array in inputs.values()), default=1)
    for numerics in ("exact", "ties"):
        optimized = api.optimize(expected, "onnxruntime", numerics)
        assert all(bound.contract == "exact" for bound in optimized.ctx.remarks.outputs)
        written = write_model(optimized.module, optimized.ctx).whole()
        for n in range(count):
            given = {key: array[n] for key, array in inputs.items()}
            (wanted,), (got,) = ran(source, given), ran(written, given)
            assert np.array_equal(wanted, got)
            after = Interpreter(optimized.ctx, optimized.module).run(given)[0]
            assert np.array_equal(after, wanted)


def test_chains_of_rescales() -> None:
    rng = np.random.default_rng(5)
    folded = 0
    for _ in range(25):
        grids: list[tuple[str, float, int]] = []
        scale = minmax_scale(rng)
        for _ in range(4):
            # Now a code of its own for each value, now a coarser scale or the same.
            storage, zero = [("i8", 0), ("u8", 128), ("i8", 17)][rng.integers(0, 3)]
            scale *= float(rng.choice([1.0, 1.0, 1.37, 3.0]))
            grids.append((storage, float(np.float32(scale)), zero))
        codes = every_code(grids[0][0])
        source = chain(codes, grids)
        model = imported(source)
        optimized = api.optimize(model, "onnxruntime", "exact")
        fired = optimized.ctx.remarks.fired()
        folded += fired.get("rescale-of-rescale", 0) + fired.get("fold", 0)
        given = {"x": codes}
        (wanted,) = ran(source, given)
        assert np.array_equal(
            ran(write_model(optimized.module, optimized.ctx).whole(), given)[0], wanted
        )
        assert np.array_equal(Interpreter(model.ctx, model.module).run(given)[0], wanted)
    assert folded > 5


def optimized_alike(source: onnx.ModelProto, given: dict[str, Array]) -> dict[str, int]:
    """What fired at `exact`, whatever it costs; the bits must be those of the source."""
    optimized = api.optimize(imported(source), "generic", "exact")
    written = write_model(optimized.module, optimized.ctx).whole()
    for wanted, got in zip(ran(source, given), ran(written, given), strict=True):
        assert wanted.dtype == got.dtype
        assert np.array_equal(wanted, got)
    return dict(optimized.ctx.remarks.fired())


FUNCTIONS = (
    *((kind, {}) for kind in ("Sqrt", "Neg", "Abs", "Floor", "Ceil", "Round", "HardSwish", "Relu")),
    ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    ("LeakyRelu", {"alpha": 0.1}),
    *((kind, {}) for kind in ("Sigmoid", "Tanh", "Erf", "Exp", "Softplus", "Elu")),
)


@pytest.mark.parametrize(("kind", "attributes"), FUNCTIONS, ids=[kind for kind, _ in FUNCTIONS])
def test_a_table_is_what_the_runtime_computes(kind: str, attributes: dict[str, float]) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)))
    codes = every_code("u8")
    tables = 0
    for _ in range(4):
        scale = minmax_scale(rng)
        zero = 0 if kind == "Sqrt" else int(rng.integers(0, 256))
        nodes = [
            helper.make_node(kind, ["r0"], ["f"], **attributes),
            helper.make_node("Mul", ["f", "r0"], ["r"]),
        ]
        reach = np.float32(scale) * 255
        result = float(np.float32(2) * reach * min(reach, np.float32(1)) / np.float32(255))
        source = chain(codes, [("u8", scale, zero), ("u8", result, 128)], nodes)
        tables += optimized_alike(source, {"x": codes}).get("chain-to-table", 0)
    assert tables


def test_the_error_of_functions_is_as_stated() -> None:
    from qdialect.algebra.float_spans import FloatSpan, approximated
    from qdialect.ir import ops as nn
    from qdialect.ir.ops import default_behaviors

    rng = np.random.default_rng(3)
    size = rng.uniform(-6, 2, 20000)
    x = (rng.choice([-1.0, 1.0], size.size) * 10.0**size).astype(np.float32)
    kinds = {"Erf": nn.ErfOp, "Sigmoid": nn.SigmoidOp, "Tanh": nn.TanhOp, "Exp": nn.ExpOp}
    kinds |= {"Softplus": nn.SoftplusOp, "Elu": nn.EluOp, "Gelu": nn.GeluOp}
    shape = list(x.shape)
    for name, kind in kinds.items():
        values = [helper.make_tensor_value_info(n, 1, shape) for n in ("x", "y")]
        graph = helper.make_graph(
            [helper.make_node(name, ["x"], ["y"])], "f", values[:1], values[1:]
        )
        opset = [helper.make_opsetid("", 21)]
        (got,) = ran(helper.make_model(graph, opset_imports=opset, ir_version=10), {"x": x})
        op = kind(Block(arg_types=[TensorType(f32, shape)]).args[0])
        behavior = default_behaviors().get(op)
        assert behavior is not None and behavior.analytic is not None
        words, pointwise = behavior.analytic, behavior.pointwise
        assert pointwise is not None
        with np.errstate(all="ignore"):
            span = approximated(
                lambda v, words=words, op=op: words(op, v),
                lambda v, pointwise=pointwise, op=op: pointwise(op, v),
                FloatSpan.exactly(x),
            )
        known = np.isfinite(span.low) & np.isfinite(span.high) & np.isfinite(got)
        assert known.mean() > 0.9
        room = (span.high[known] - span.low[known]) / 8
        away = np.abs(got[known] - span.likely[known])
        assert (away <= room + np.abs(np.spacing(got[known]))).all(), name


def test_affine_chains_in_floats() -> None:
    rng = np.random.default_rng(11)
    folded, codes = 0, every_code("i8")
    for n in range(24):
        kind = ("Mul", "Add", "Div", "Sub")[n % 4]
        constant = np.float32(6 if kind == "Div" else rng.normal() * 3)
        scale = minmax_scale(rng)
        held = numpy_helper.from_array(constant)
        nodes = [
            helper.make_node("Constant", [], ["a"], value=held),
            helper.make_node(kind, ["r0", "a"], ["r"]),
        ]
        x = np.float32(scale) * np.arange(-128, 128, dtype=np.float32)
        given = {"Mul": x * constant, "Add": x + constant, "Div": x / constant, "Sub": x - constant}
        result = float(np.float32(2) * np.abs(given[kind]).max() / np.float32(255))
        source = chain(codes, [("i8", scale, 0), ("i8", result, 0), ("u8", result, 128)], nodes)
        folded += optimized_alike(source, {"x": codes}).get("affine-of-codes", 0)
    assert folded > 5


def test_quantize_stays_below_a_comparison_of_what_may_be_no_number() -> None:
    codes = every_code("i8")
    nodes = [
        helper.make_node("Sqrt", ["r0"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
    ]
    for storage, zero in (("i8", -3), ("u8", 7)):
        source = chain(codes, [("i8", 0.1, 5), (storage, 0.02, zero)], nodes)
        assert "hoist-quantize" not in optimized_alike(source, {"x": codes})


def test_a_computed_weight_stays_computed() -> None:
    path = HERE.parent / "models" / "weights_dequantized.onnx"
    source = onnx.load(path)
    given = np.random.default_rng(0).normal(size=(1, 3, 32, 32)).astype(np.float32)
    optimized_alike(source, {"x": given})
    optimized = api.optimize(imported(source), "onnxruntime", "exact")
    written = write_model(optimized.module, optimized.ctx).whole()
    assert len(written.SerializeToString()) < 1.1 * path.stat().st_size
    tables = [t for t in written.graph.initializer if sum(extent > 1 for extent in t.dims) > 1]
    kinds = {t.data_type for t in tables}
    assert kinds == {helper.np_dtype_to_tensor_dtype(np.dtype(np.int8))}


def test_an_integer_target_keeps_what_floats_decide() -> None:
    """Three rescales of codes, and a float output that has nothing to do with them."""
    source = onnx.load(HERE.parent / "models" / "rescales_beside_floats.onnx")
    model = imported(source)
    optimized = api.optimize(model, "integer", "exact")
    checked = api.check(model, optimized, 12, form=None)
    assert checked.samples == 12
    assert all(output.found.is_equal for output in checked.outputs)
