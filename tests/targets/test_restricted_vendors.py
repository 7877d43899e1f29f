"""Vendors with restrictions, served from a float ONNX model to what they run; see tests/vendors.

Their packages state domains and hold no code of passes: quantization chooses inside them.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from tests.support.vendors import CAN_BUILD, NEEDS, ROOT, call, install

pytestmark = pytest.mark.skipif(not CAN_BUILD, reason=NEEDS)

UNIFORM = re.compile(r"!quant\.uniform<(i\d+)(?:<-?\d+:\d+>)?:f32, ([-\deE+.]+)(?::(-?\d+))?>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(ROOT / "tests" / "vendors", tmp_path_factory.mktemp("vendors"))


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small residual network of floats in ONNX, and data for it."""
    rng, folder = np.random.default_rng(5), tmp_path_factory.mktemp("network")
    shapes = {"w0": (8, 3, 3, 3), "b0": (8,), "w1": (8, 8, 3, 3), "b1": (8,), "w2": (5, 8)}
    weights = [
        numpy_helper.from_array(
            rng.normal(0, 1 / math.sqrt(max(np.prod(shape[1:]), 4)), shape).astype("f4"), name
        )
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], "conv0", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"], "relu0"),
        helper.make_node("Conv", ["r0", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c1", "r0"], ["a"], "add"),
        helper.make_node("MaxPool", ["a"], ["m"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["m"], ["g"], "mean"),
        helper.make_node("Flatten", ["g"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "w2"], ["y"], "fc", transB=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "n.onnx"
    )
    noise = rng.normal(size=(24, 1, 3, 16, 16))
    smooth = noise + np.roll(noise, 1, -1) + np.roll(noise, 1, -2)
    np.savez(folder / "data.npz", x=smooth.astype("f4"))
    return folder / "n.onnx", folder / "data.npz"


def served(site: Path, network: tuple[Path, Path], target: str, folder: Path) -> tuple[str, float]:
    """The text of the network quantized for a target, and how near it is in dB."""
    model, data = network
    out = folder / f"{target}.mlir"
    arguments = ["quantize", str(model), "-d", str(data), "-o", str(out), "--target", target]
    done = call(site, ["qdialect.cli.qopt", *arguments])
    assert done.returncode == 0, done.stderr
    refused = call(site, ["qdialect.cli.qopt", "inspect", str(out), "--target", target])
    assert refused.returncode == 0 and "refused by" not in refused.stdout, refused.stdout
    return out.read_text(), near(model, out, data)


def near(first: Path, second: Path, data: Path) -> float:
    """The ratio of a signal to its difference from another, in dB, on data."""
    a, b = (qd.load(path) for path in (first, second))
    signal = noise = 0.0
    for x in np.load(data)["x"][:6]:
        (one,), (other,) = (list(qd.run(model, {"x": x}).values()) for model in (a, b))
        signal, noise = signal + float((one**2).sum()), noise + float(((one - other) ** 2).sum())
    return 10 * math.log10(signal / noise)


def test_an_accelerator_of_shifts(site: Path, network: tuple[Path, Path], tmp_path: Path) -> None:
    text, loss = served(site, network, "pow2_accelerator", tmp_path)
    found = {(kind, float(scale), int(zero or 0)) for kind, scale, zero in UNIFORM.findall(text)}
    assert {kind for kind, _, _ in found} == {"i8", "i32"}
    # So each rescale is a shift.
    assert all(math.frexp(scale)[0] == 0.5 for _, scale, _ in found)
    assert {zero for _, _, zero in found} == {0, -128}
    rescales = re.findall(r"quant\.rescale %\w+ : \S+!quant\.uniform<(i\d+)", text)
    assert rescales.count("i32") == 3  # one behind each product
    assert len(re.findall(r"quant\.[qd]cast", text)) == 2  # at the interface
    _, free = served(site, network, "onnxruntime", tmp_path)
    assert free - 14 < loss < free


def test_a_processor_of_16_bits(site: Path, network: tuple[Path, Path], tmp_path: Path) -> None:
    text, loss = served(site, network, "dsp16", tmp_path)
    found = {(kind, int(zero or 0)) for kind, _, zero in UNIFORM.findall(text)}
    assert found == {("i16", 0), ("i32", 0)}  # i32: biases
    assert "i32" not in "".join(re.findall(r"-> \S+!quant\.uniform<(i\d+)", text))
    _, bytes_ = served(site, network, "onnxruntime", tmp_path)
    assert loss > bytes_ + 20


def test_a_model_quantized_for_others(
    site: Path, network: tuple[Path, Path], tmp_path: Path
) -> None:
    model, data = network
    foreign, out = tmp_path / "foreign.onnx", tmp_path / "out.mlir"
    qopt = "qdialect.cli.qopt"
    call(site, [qopt, "quantize", str(model), "-d", str(data), "-o", str(foreign)])
    arguments = ["optimize", str(foreign), "-o", str(out), "--target", "pow2_accelerator"]
    done = call(site, [qopt, *arguments])
    assert done.returncode == 0 and "quant.rescale" not in out.read_text()
    done = call(site, [qopt, *arguments, "--numerics", "relaxed"])
    assert done.returncode == 0, done.stderr
    found = UNIFORM.findall(out.read_text())
    # The interface of floats stays; weights and values are inside the domain.
    assert found and all(math.frexp(float(scale))[0] == 0.5 for _, scale, _ in found)
    assert out.read_text().count("nn.conv2d") == 2
    assert near(foreign, out, data) > 15
