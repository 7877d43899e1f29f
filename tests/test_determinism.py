"""The same bytes come out: in every process, under every hash seed, in every Python."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.generators.networks import random_model

OTHERS = [name for name in os.environ.get("QDIALECT_PYTHONS", "").split(os.pathsep) if name]
"""Interpreters of other versions, with what qdialect needs."""

OUTPUTS = """
import sys
from qdialect.cli import qopt, opt, translate
model, out = sys.argv[1:]
for argv in (
    [qopt.main, "optimize", model, "-o", f"{out}/a.mlir", "--check=0", f"--remarks={out}/r.json"],
    [qopt.main, "optimize", model, "-o", f"{out}/a.onnx", "--check=0", "--numerics=relaxed"],
    [qopt.main, "optimize", model, "-o", f"{out}/q.onnx", "--check=0", "--form=qoperator"],
    [qopt.main, "optimize", model, "-o", f"{out}/t.mlir", "--target=integer", "--keep-refused"],
    [translate.main, "--import-onnx", model, "-o", f"{out}/i.mlir"],
    [opt.main, f"{out}/i.mlir", "--pass-pipeline=integerize,place-rescales", "-o", f"{out}/p.mlir"],
    [translate.main, "--export-onnx", f"{out}/i.mlir", "-o", f"{out}/e.onnx"],
):
    assert argv[0](argv[1:]) == 0, argv
"""


def digests(python: str, model: Path, folder: Path, salt: str) -> dict[str, str]:
    folder.mkdir()
    subprocess.run(
        [python, "-c", OUTPUTS, str(model), str(folder)],
        env={**os.environ, "PYTHONHASHSEED": salt},
        check=True,
        capture_output=True,
    )
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
    }


def test_bytes_do_not_depend_on_the_process(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    onnx.save(random_model(5, 14), model)
    wanted = digests(sys.executable, model, tmp_path / "first", "0")
    assert len(wanted) >= 8
    for number, (python, salt) in enumerate([(sys.executable, "1"), *((p, "2") for p in OTHERS)]):
        assert digests(python, model, tmp_path / f"other{number}", salt) == wanted, python


KERNELS = ("Prescott", "Haswell", "SkylakeX")
"""Kernels of OpenBLAS, which sum products of floats in other orders."""
NEEDS = {"Haswell": "avx2", "SkylakeX": "avx512bw"}
"""What a processor must have for a kernel."""


def test_quantize_without_times_gives_the_same_bytes_by_other_kernels(tmp_path: Path) -> None:
    """`qopt quantize --time 0` decides by no last bit of a product of matrices, and no time."""
    rng = np.random.default_rng(7)
    model, data, out = (tmp_path / name for name in ("m.onnx", "d.npz", "q.onnx"))
    onnx.save(float_network(), model)
    np.savez(data, x=rng.normal(size=(16, 1, 3, 24, 24)).astype(np.float32))
    known = Path("/proc/cpuinfo").read_text() if sys.platform == "linux" else ""
    found = dict[str, bytes]()
    for kernel in KERNELS:
        if NEEDS.get(kernel, "") not in known:
            continue
        arguments = ["quantize", model, "-d", data, "-o", out, "--time", "0"]
        subprocess.run(
            [sys.executable, "-m", "qdialect", *map(str, arguments)],
            env={**os.environ, "OPENBLAS_CORETYPE": kernel},
            check=True,
            capture_output=True,
        )
        found[kernel] = out.read_bytes()
    if len(found) < 2:
        pytest.skip(f"this processor runs {len(found)} of the kernels {', '.join(KERNELS)}")
    assert len(set(found.values())) == 1
    assert b"QuantizeLinear" in out.read_bytes()


def float_network() -> onnx.ModelProto:
    """A small residual network of floats over 24 x 24 images."""
    rng = np.random.default_rng(3)
    shapes = {"w0": (16, 3, 3, 3), "b0": (16,), "w1": (16, 16, 3, 3), "b1": (16,), "w2": (10, 16)}
    weights = [
        numpy_helper.from_array(
            (rng.normal(size=shape) / np.sqrt(max(np.prod(shape[1:]), 4))).astype(np.float32), name
        )
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], "conv0", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"], "relu0"),
        helper.make_node("Conv", ["r0", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c1", "r0"], ["a"], "add"),
        helper.make_node("GlobalAveragePool", ["a"], ["g"], "mean"),
        helper.make_node("Flatten", ["g"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "w2"], ["y"], "fc", transB=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 24, 24])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
