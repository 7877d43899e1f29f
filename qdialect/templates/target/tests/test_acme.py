"""The package, as qdialect sees it: lit tests, and what its op computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import qdialect as qd
from numpy.lib.stride_tricks import sliding_window_view
from qdialect.algebra.qparams import QParams
from qdialect.interpreter import Interpreter, random_inputs
from qdialect.ir.ops import Conv2DOp, ReluOp, make_constant
from qdialect.ir.quant import UniformType
from qdialect.pipeline.plugins import Plugins
from qdialect.testing.lit import discover, run_file
from xdsl.builder import ImplicitBuilder
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp

X = UniformType(QParams.per_tensor("i8", 0.5, -128))
Y = UniformType(QParams.per_tensor("i8", 4.0))
SCALES = [2.0**-n for n in range(4)]


@pytest.mark.parametrize("path", discover(Path(__file__).parent), ids=lambda path: path.name)
def test_lit(path: Path, tmp_path: Path) -> None:
    run_file(path, tmp_path)


def network(weights: np.ndarray, bias: np.ndarray) -> qd.Model:
    """relu(conv2d(x, weights, bias)) on codes, stride 2, built op by op."""
    ctx = Plugins().session()
    w = UniformType(QParams.per_axis("i8", 0, SCALES))
    b = UniformType(QParams.per_axis("i32", 0, [0.5 * scale for scale in SCALES]))
    main = FuncOp("main", ([TensorType(X, [1, 3, 9, 9])], [TensorType(Y, [1, 4, 5, 5])]))
    with ImplicitBuilder(main.body) as (x,):
        constants = make_constant(weights, w, ctx.blobs), make_constant(bias, b, ctx.blobs)
        conv = Conv2DOp(x, *constants, strides=[2, 2], pads=[1, 1, 1, 1], element=Y)
        ReturnOp(ReluOp(conv))
    return qd.Model(ModuleOp([main]), ctx)


def expected(x: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The definition, in 64-bit integers; scales of powers of two make the rest exact."""
    codes = np.pad(x.astype(np.int64) + 128, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(codes, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    sums = np.einsum("ncijhw,ochw->noij", windows, weights.astype(np.int64))
    reals = (sums + bias.reshape(1, -1, 1, 1)) * 0.5 * np.reshape(SCALES, (1, -1, 1, 1))
    return np.clip(np.rint(np.maximum(reals, 0) / 4.0), -128, 127).astype(np.int8)


def test_the_op_computes_what_it_is_defined_as() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    bias = rng.integers(-9999, 9999, 4).astype(np.int32)
    model = network(weights, bias)
    model = qd.run_passes(model, "acme-fuse,dce", target="acme")
    names = [op.name for op in model.function().body.ops]
    assert names[-2:] == ["acme.conv_relu", "func.return"]
    interpreter = Interpreter(model.ctx, model.module)
    for seed in range(8):
        (x,) = random_inputs(interpreter.function(), seed, boundary=seed % 2 == 1)
        np.testing.assert_array_equal(interpreter.run([x])[0], expected(x, weights, bias))


def test_what_the_target_does_not_take() -> None:
    target = qd.get_target("acme")
    assert target.refuses_qparams(QParams.per_tensor("i8", 0.5, 3)) == "zero point 3 is not 0|-128"
    assert target.refuses_qparams(QParams.per_tensor("i8", 0.3)) == "scale 0.3 is not 2^n"
    assert target.refuses_qparams(QParams.per_tensor("u8", 0.5)) == "has no u8 tensors"
