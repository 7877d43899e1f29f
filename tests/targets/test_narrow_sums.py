"""A vendor whose sums saturate in 24 bits, from a float ONNX model to codes (tests/vendors/npu24).

Its accumulator is simulated, on inputs that are worst for it too.
"""

# pyright: basic
from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from qdialect.algebra.sums import SumType
from qdialect.analysis.codes import qparams_of
from qdialect.interpreter import Interpreter
from qdialect.ir.quant.arithmetic import ARITHMETIC_KEY
from tests.support.narrow_sums import narrow_kernels
from tests.support.vendors import CAN_BUILD, NEEDS, ROOT, call, install

pytestmark = pytest.mark.skipif(not CAN_BUILD, reason=NEEDS)

KIND = SumType.parse("i24 saturating")
QOPT = "qdialect.cli.qopt"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(ROOT / "tests" / "vendors", tmp_path_factory.mktemp("vendors"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of floats that adds up 3136 products, data, and the worst input for it."""
    rng, folder = np.random.default_rng(5), tmp_path_factory.mktemp("network")
    weights = {
        "w0": rng.uniform(-0.05, 0.05, (16, 64, 7, 7)),
        "b0": rng.normal(0, 0.1, 16),
        "w1": rng.normal(0, 0.3, (5, 16, 1, 1)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], "conv0", pads=[3, 3, 3, 3]),
        helper.make_node("Relu", ["c0"], ["r0"], "relu0"),
        helper.make_node("MaxPool", ["r0"], ["p0"], "pool", kernel_shape=[2, 2]),
        helper.make_node("Conv", ["p0", "w1"], ["y"], "conv1"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5, 7, 7])
    held = [numpy_helper.from_array(w.astype("f4"), name) for name, w in weights.items()]
    graph = helper.make_graph(nodes, "net", [x], [y], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, folder / "net.onnx")
    np.savez(folder / "data.npz", x=rng.normal(size=(16, 1, 64, 8, 8)).astype("f4"))
    worst = np.zeros((8, 1, 64, 8, 8))
    worst[:, 0, :, :7, :7] = 100 * np.sign(weights["w0"][:8])
    worst[:, 0, 40:] *= -1  # sums grow first, and shrink then
    np.savez(folder / "worst.npz", x=worst.astype("f4"))
    return folder


def written(site: Path, folder: Path, target: str) -> Path:
    """The network quantized for a target."""
    out = folder / f"{target}.mlir"
    if not out.exists():
        data = ["-d", str(folder / "data.npz")]
        arguments = ["quantize", str(folder / "net.onnx"), *data, "-o", str(out)]
        done = call(site, [QOPT, *arguments, "--target", target])
        assert done.returncode == 0, done.stderr
    return out


def run(path: Path, inputs: Path, *, narrow: bool, wrong: Counter[str] | None = None) -> Any:
    """Outputs, in floats, of a module that takes and gives codes."""
    model = qd.load(path)
    model.module.attributes.pop(ARITHMETIC_KEY, None)  # integers, as the accelerator has
    functions = narrow_kernels(KIND, wrong) if narrow else None
    machine = Interpreter(model.ctx, model.module, functions=functions)
    block = machine.function().body.block
    taken, given = qparams_of(block.args[0]), qparams_of(block.last_op.operands[0])  # pyright: ignore
    assert taken is not None and given is not None
    found: list[Any] = []
    for x in np.load(inputs)["x"]:
        codes = np.clip(np.rint(x / taken.scale) + taken.zero_point, -128, 127).astype("i1")
        (y,) = machine.run([codes])
        found.append((y.astype(float) - given.zero_point) * given.scale)
    return np.stack(found)


def decibels(real: Any, other: Any) -> float:
    return 10 * math.log10(float((real**2).sum() / ((real - other) ** 2).sum()))


def real(folder: Path) -> Any:
    model = qd.load(folder / "net.onnx")
    data = np.load(folder / "data.npz")["x"]
    return np.stack([next(iter(qd.run(model, {"x": x}).values())) for x in data])


def test_no_sum_saturates_from_a_float_model_on(site: Path, folder: Path) -> None:
    free, fitted = written(site, folder, "npu32"), written(site, folder, "npu24")
    text = re.sub(r"nn.\w+ = (tensor<\w+>|\"\w+\")", "", fitted.read_text())
    assert "xf32" not in text and "cast" not in text  # codes only
    saturated = Counter[str]()
    worst = folder / "worst.npz"
    # The same network for sums in i32 saturates on such an accumulator ...
    exact, narrow = (run(free, worst, narrow=n, wrong=saturated) for n in (False, True))
    assert (exact != narrow).any() and saturated.total() > 0
    # ... and this one nowhere, on the worst inputs and on data.
    fits = Counter[str]()
    for inputs in (worst, folder / "data.npz"):
        exact, narrow = (run(fitted, inputs, narrow=n, wrong=fits) for n in (False, True))
        assert (exact == narrow).all()
    assert not +fits
    data, floats = folder / "data.npz", real(folder)
    losses = [decibels(floats, run(path, data, narrow=False)) for path in (free, fitted)]
    # 37.8 dB with sums in i32, 35.6 dB in i24.
    assert losses[0] - 3 < losses[1] < losses[0], losses


def test_what_is_quantized_already_is_fitted(site: Path, folder: Path, tmp_path: Path) -> None:
    free, out = written(site, folder, "npu32"), tmp_path / "out.mlir"
    arguments = ["optimize", str(free), "-o", str(out), "--target", "npu24"]
    done = call(site, [QOPT, *arguments])
    said = "sums of 1 of 2 convolutions and products may leave i24 saturating"
    assert done.returncode == 0 and said in done.stderr, done.stderr
    shown = call(site, [QOPT, "inspect", str(free), "--target", "npu24"])
    assert shown.returncode == 0 and f"{said}; fit-sums{{numerics=relaxed}} rounds" in shown.stdout
    done = call(site, [QOPT, *arguments, "--numerics", "relaxed"])
    assert done.returncode == 0 and said not in done.stderr, done.stderr
    wrong = Counter[str]()
    exact, narrow = (run(out, folder / "worst.npz", narrow=n, wrong=wrong) for n in (False, True))
    assert (exact == narrow).all() and not +wrong
    data = folder / "data.npz"
    assert decibels(run(free, data, narrow=False), run(out, data, narrow=False)) > 20
