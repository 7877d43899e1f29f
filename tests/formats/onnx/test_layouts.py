"""Models in the layouts of Q/DQ that quantizers write: same function, codes kept, in integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

import qdialect as qd
from qdialect.errors import InputError
from qdialect.targets.installed import get_target
from qdialect.workflows.check import check_optimized
from qdialect.workflows.optimize_file import FileOptimization
from tests.generators.layouts import Layout, layout_model, random_layout

INPUT_ONLY = Path(__file__).parent / "models" / "weights_dequantized.onnx"
"""Convolutions with HardSwish and a Gemm, as PyTorch's quantizer for x86 writes them."""
INTEGER_KERNELS = {"QLinearConv", "QLinearMatMul", "QGemm", "MatMulIntegerToFloat"}
FLOAT_KERNELS = {"Conv", "FusedConv", "Gemm", "FusedGemm", "MatMul", "FusedMatMul"}
CODES = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)

Array = NDArray[Any]


def optimized(source: Path, target: Path, numerics: str = "exact", seconds: float = 0.0) -> Any:
    """The optimization of a file, done."""
    work = FileOptimization(
        source, target, get_target("onnxruntime"), numerics, samples=2, seconds=seconds
    )
    work.run()
    return work


def session(path: Path, *, optimize: bool, save: Path | None = None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if save is not None:
        options.optimized_model_filepath = str(save)
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def answer(path: Path, x: Array, *, optimize: bool) -> Array:
    return np.asarray(session(path, optimize=optimize).run(None, {"x": x})[0])


def executed(path: Path) -> list[str]:
    """The ops that the runtime executes."""
    saved = path.with_suffix(".executed.onnx")
    session(path, optimize=True, save=saved)
    return [node.op_type for node in onnx.load(saved).graph.node]


def weight_bytes(path: Path) -> tuple[int, int]:
    """Bytes of codes, and of floats in tensors of several dimensions that are no broadcasts."""
    codes = floats = 0
    for tensor in onnx.load(path).graph.initializer:
        size = numpy_helper.to_array(tensor).nbytes
        wide = sum(extent > 1 for extent in tensor.dims) > 1
        codes += size if tensor.data_type in CODES and wide else 0
        floats += size if tensor.data_type == onnx.TensorProto.FLOAT and wide else 0
    return codes, floats


def noise_db(a: Array, b: Array) -> float:
    noise = float(np.square(a - b).sum())
    return np.inf if not noise else 10 * float(np.log10(np.square(a).sum() / noise))


def drawn(source: Path, seed: int) -> Array:
    shape = onnx.load(source).graph.input[0].type.tensor_type.shape.dim
    dims = [extent.dim_value for extent in shape]
    return (np.random.default_rng(seed).normal(size=dims) * 1.2).astype(np.float32)


def same_bits(a: Array, b: Array) -> bool:
    return bool(np.array_equal(a.view(np.uint32), b.view(np.uint32)))


# -- the reproduction ---------------------------------------------------------------------


@pytest.mark.parametrize("numerics", ["exact", "ties", "bounded", "saturation", "relaxed"])
@pytest.mark.exact_sums
def test_weights_of_an_input_only_model_stay_codes(tmp_path: Path, numerics: str) -> None:
    target = tmp_path / "o.onnx"
    work = optimized(INPUT_ONLY, target, numerics, seconds=0.05)
    assert weight_bytes(target) == weight_bytes(INPUT_ONLY)
    assert target.stat().st_size < INPUT_ONLY.stat().st_size
    assert not any("defect" in str(note) for note in (*work.dropped, *work.notes))
    x = drawn(INPUT_ONLY, 1)
    assert noise_db(*(answer(f, x, optimize=True) for f in (INPUT_ONLY, target))) > 50


def test_no_weight_is_dequantized_as_an_input_only_model_runs(tmp_path: Path) -> None:
    target, source = tmp_path / "o.onnx", tmp_path / "i.onnx"
    source.write_bytes(INPUT_ONLY.read_bytes())
    optimized(source, target)
    # Four of the casts of activations are left.
    assert executed(source).count("DequantizeLinear") == 8
    assert executed(target).count("DequantizeLinear") == 4
    x = drawn(source, 2)
    assert same_bits(*(answer(f, x, optimize=False) for f in (source, target)))


@pytest.mark.exact_sums
def test_an_input_only_gemm_runs_in_integers_at_ties(tmp_path: Path) -> None:
    target = tmp_path / "o.onnx"
    optimized(INPUT_ONLY, target, "ties")
    assert {"QGemm"} <= set(executed(target))


@pytest.mark.parametrize("numerics", ["exact", "ties"])
def test_what_was_written_is_optimized_to_itself(tmp_path: Path, numerics: str) -> None:
    first, second = tmp_path / "1.onnx", tmp_path / "2.onnx"
    optimized(INPUT_ONLY, first, numerics)
    optimized(first, second, numerics)
    graphs = [onnx.load(path).graph for path in (first, second)]
    ops = [[node.op_type for node in graph.node] for graph in graphs]
    assert ops[0] == ops[1]
    assert weight_bytes(first) == weight_bytes(second)


# -- all layouts ----------------------------------------------------------------------------


def layouts(seeds: range) -> list[tuple[int, Layout]]:
    return [(seed, random_layout(np.random.default_rng(seed))) for seed in seeds]


def expected_bytes(source: Path, layout: Layout) -> int:
    """Bytes of weights as codes."""
    codes, floats = weight_bytes(source)
    return floats // 4 if layout.weights == "floats" else codes


@pytest.mark.parametrize(("seed", "layout"), layouts(range(40)), ids=str)
@pytest.mark.exact_sums
def test_random_layouts(tmp_path: Path, seed: int, layout: Layout) -> None:
    """Bits at `exact`, little noise at other levels; codes; what the runtime makes of it means
    what is written, even where that of the input does not."""
    source, target = tmp_path / "i.onnx", tmp_path / "o.onnx"
    onnx.save(layout_model(layout, seed), source)
    x = drawn(source, seed)
    written = answer(source, x, optimize=False)
    for numerics in ("exact", "ties"):
        work = optimized(source, target, numerics)
        assert not work.dropped
        found = answer(target, x, optimize=False)
        if numerics == "exact":
            assert same_bits(written, found)
        assert noise_db(written, found) > 50
        assert noise_db(written, answer(target, x, optimize=True)) > 30
        # Transposed convolutions in phases have another shape, and zeros in it.
        if layout.product != "transposed":
            assert weight_bytes(target) == (expected_bytes(source, layout), 0)


@pytest.mark.parametrize("layout", ["input", "output", "both"])
@pytest.mark.exact_sums
def test_relaxed_keeps_codes_without_a_race(tmp_path: Path, layout: str) -> None:
    """Where what drops clips is further from the float model than the input, what keeps them is
    written."""
    source, target = tmp_path / "i.onnx", tmp_path / "o.onnx"
    kind = Layout(layout, "batched", "HardSwish", "float", "floats", False, "u8")
    onnx.save(layout_model(kind, 1034, depth=3), source)
    optimized(source, target, "relaxed")
    assert weight_bytes(target) == (expected_bytes(source, kind), 0)


PRODUCTS = ("conv", "point", "gemm", "matmul", "batched")


@pytest.mark.parametrize("bias", ["none", "float", "sums", "i32", "i8"])
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.exact_sums
def test_biases(tmp_path: Path, product: str, bias: str) -> None:
    """However a bias lies, the first product, which is quantized next, runs in integers, and at
    `ties` every matrix product does."""
    source, target = tmp_path / "i.onnx", tmp_path / "o.onnx"
    layout = Layout("input", product, "Relu", bias, "codes", True, "u8")
    onnx.save(layout_model(layout, 3), source)
    optimized(source, target, "ties")
    ops = executed(target)
    integer = sum(op in INTEGER_KERNELS for op in ops)
    assert integer == (1 if product in ("conv", "point") else 2)
    assert integer + sum(op in FLOAT_KERNELS for op in ops) == 2
    x = drawn(source, 4)
    assert noise_db(answer(source, x, optimize=False), answer(target, x, optimize=True)) > 40


@pytest.mark.exact_sums
def test_an_input_that_the_runtime_gets_wrong_is_not_written(tmp_path: Path) -> None:
    """The runtime adds a bias of i32 to the sums, on whatever scale it is."""
    source, target = tmp_path / "i.onnx", tmp_path / "o.onnx"
    layout = Layout("input", "gemm", "Relu", "i32", "codes", False, "i8")
    onnx.save(layout_model(layout, 23), source)
    x = drawn(source, 23)
    written = answer(source, x, optimize=False)
    assert noise_db(written, answer(source, x, optimize=True)) < 20
    work = optimized(source, target, seconds=0.05)
    assert noise_db(written, answer(target, x, optimize=True)) > 50
    assert any("the input is no candidate" in note for note in work.notes)


def test_relaxed_is_not_called_a_defect(tmp_path: Path) -> None:
    """Inputs may reach clips that `relaxed` drops; that is said, and what to do."""
    source = tmp_path / "i.onnx"
    onnx.save(layout_model(Layout("output", "matmul", "", "sums", "codes", False, "i8"), 1), source)
    model = qd.load(source)
    relaxed = qd.optimize(model, "onnxruntime", numerics="relaxed")
    x = 1e6 * drawn(source, 1)
    with pytest.raises(InputError, match="far from the original") as caught:
        check_optimized(model, relaxed, 1, inputs={"x": x})
    assert "defect" not in str(caught.value.notes)
    assert "inputs of the task" in str(caught.value.notes)


@pytest.mark.parametrize("product", ["conv", "gemm", "matmul", "batched"])
def test_more_is_executed_in_integers(tmp_path: Path, product: str) -> None:
    """No fewer products than of the input."""
    source, target = tmp_path / "i.onnx", tmp_path / "o.onnx"
    for layout in ("input", "output", "both"):
        kind = Layout(layout, product, "HardSwish", "float", "codes", True, "u8")
        onnx.save(layout_model(kind, 1), source)
        optimized(source, target, "ties")
        counts = [sum(op in INTEGER_KERNELS for op in executed(f)) for f in (source, target)]
        assert counts[0] <= counts[1]
