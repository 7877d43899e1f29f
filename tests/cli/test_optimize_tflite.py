"""`qopt` on TFLite and Circle files: to TFLite, to ONNX, from ONNX, and what is never written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qdialect
from qdialect.plugins.tflite.file.read import read_file
from tests.support.commands import Result, call
from tests.support.commands import qopt as command

models = pytest.importorskip("tests.support.tflite_models")


def qopt(*argv: str | Path) -> Result:
    return call(command, *map(str, argv))


SCALE, ZERO = 0.03, -5


def _codes(name: str, shape: tuple[int, ...], scale: float = SCALE, zero: int = ZERO) -> Any:
    return models.tensor(name, shape, "INT8", scales=[scale], zero_points=[zero])


def network(*, swish_scale: float = 0.02, functions: bool = True) -> bytes:
    """A convolution, and with `functions` HARD_SWISH and a rectifier on floats between casts."""
    rng = np.random.default_rng(0)
    shape = (1, 8, 8, 4)
    weights = models.tensor(
        "w",
        (4, 3, 3, 2),
        "INT8",
        scales=[0.01, 0.02, 0.015, 0.012],
        zero_points=[0] * 4,
        data=rng.integers(-127, 128, (4, 3, 3, 2)).astype(np.int8),
    )
    bias = models.tensor(
        "b",
        (4,),
        "INT32",
        scales=[float(np.float32(SCALE) * np.float32(s)) for s in (0.01, 0.02, 0.015, 0.012)],
        zero_points=[0] * 4,
        data=rng.integers(-200, 200, 4).astype(np.int32),
    )
    inner = [
        _codes("c", shape, 0.04, 3),
        _codes("h", shape, swish_scale, -100),
        models.tensor("f", shape, "FLOAT32"),
        models.tensor("g", shape, "FLOAT32"),
    ]
    options = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
    ops = [
        models.op("CONV_2D", ["x", "w", "b"], ["c"], options),
        models.op("HARD_SWISH", ["c"], ["h"]),
        models.op("DEQUANTIZE", ["h"], ["f"]),
        models.op("RELU", ["f"], ["g"]),
        models.op("QUANTIZE", ["g"], ["y"]),
    ]
    if not functions:
        ops, inner, swish_scale = ops[:1], [], 0.04
        ops[0] = models.op("CONV_2D", ["x", "w", "b"], ["y"], options)
    takes, gives = [_codes("x", (1, 8, 8, 2))], [_codes("y", shape, swish_scale, -100)]
    return models.model(takes, gives, ops, [weights, bias, *inner])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.tflite"
    path.write_bytes(network())
    return path


def _x(seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-128, 128, (1, 8, 8, 2)).astype(np.int8)


def _run(path: Path, seed: int = 0, resolver: str = "xnn") -> Any:
    return models.run_litert(path.read_bytes(), [_x(seed)], resolver=resolver)[0]


def _ops(path: Path) -> list[str]:
    return [op.op for op in read_file(path).subgraphs[0].operators]


def test_tflite_to_tflite(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.tflite"
    found = qopt("optimize", source, "-o", target, "--json")
    assert found.code == 0, found.err
    said = json.loads(found.out)
    assert said["dropped"] == []
    assert any("1 of 1 outputs have the same bits" in note for note in said["notes"])
    assert any("--kernels litert-xnn" in note for note in said["notes"])
    assert said["executed"]["the input"]["nodes"] == 5
    assert len(_ops(target)) <= 5
    for seed in range(4):
        assert np.array_equal(_run(source, seed), _run(target, seed))


def test_a_clamp_between_casts_is_fused(tmp_path: Path) -> None:
    source, target = tmp_path / "a.tflite", tmp_path / "b.tflite"
    source.write_bytes(network())
    model = qdialect.load(source)
    qdialect.save(qdialect.optimize(model, "litert"), target)
    # RELU of codes is slow: what it cannot be fused with gets a MAXIMUM.
    assert "RELU" not in _ops(target)
    for seed in range(4):
        assert np.array_equal(_run(source, seed), _run(target, seed))


@pytest.mark.parametrize("kernels", ["litert-ref", "litert-opt"])
def test_other_kernels(source: Path, tmp_path: Path, kernels: str) -> None:
    target = tmp_path / "b.tflite"
    found = qopt("optimize", source, "-o", target, "--kernels", kernels)
    assert found.code == 0, found.err
    assert f"--kernels {kernels}" in found.err
    resolver = kernels.removeprefix("litert-")
    for seed in range(2):
        assert np.array_equal(_run(source, seed, resolver), _run(target, seed, resolver))


@pytest.mark.exact_sums
def test_tflite_to_onnx(source: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    target = tmp_path / "b.onnx"
    found = qopt("optimize", source, "-o", target, "--json")
    assert found.code == 0, found.err
    given = {"x": _x()}
    (codes,) = qdialect.run(qdialect.load(target), given, "onnxruntime").values()
    assert np.array_equal(codes, _run(source))


def test_onnx_to_tflite_and_back(source: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    source.write_bytes(network(functions=False))
    there, back = tmp_path / "b.onnx", tmp_path / "c.tflite"
    assert qopt("optimize", source, "-o", there, "-q").code == 0
    found = qopt("optimize", there, "-o", back)
    assert found.code == 0, found.err
    assert "what LiteRT executes" in found.err
    assert np.array_equal(_run(source), _run(back))


def test_circle(source: Path, tmp_path: Path) -> None:
    circle, again = tmp_path / "b.circle", tmp_path / "c.tflite"
    assert qopt("optimize", source, "-o", circle, "-q").code == 0
    assert circle.read_bytes()[4:8] == b"CIR0"
    found = qopt("optimize", circle, "-o", again, "-q")
    assert found.code == 0, found.err
    assert np.array_equal(_run(source), _run(again))


def test_mlir_keeps_the_kernels(source: Path, tmp_path: Path) -> None:
    text, again = tmp_path / "b.mlir", tmp_path / "c.tflite"
    found = qopt("optimize", source, "-o", text, "--target", "litert", "-q")
    assert found.code == 0, found.err
    assert 'tflite.kernels = "litert-xnn"' in text.read_text()
    found = qopt("optimize", text, "-o", again, "-q")
    assert found.code == 0, found.err
    assert np.array_equal(_run(source), _run(again))


def test_what_litert_runs_and_we_cannot_read_is_copied(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qdialect.errors import UnsupportedError
    from qdialect.targets.installed import get_target
    from qdialect.workflows import optimize_file

    def fails(*args: Any, **named: Any) -> Any:
        raise UnsupportedError("no such luck")

    monkeypatch.setattr(optimize_file, "load", fails)
    monkeypatch.setattr(optimize_file, "foreign_frame", lambda error: None)
    target = tmp_path / "b.tflite"
    work = optimize_file.FileOptimization(source, target, get_target("litert"))
    work.run()
    assert target.read_bytes() == source.read_bytes()
    assert [str(one) for one in work.dropped] == [
        "left out: the whole model, which could not be read: no such luck"
    ]


def test_a_file_that_litert_refuses_is_an_error(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.tflite"
    source.write_bytes(source.read_bytes()[:200])
    found = qopt("optimize", source, "-o", target)
    assert found.code == 1
    assert "error:" in found.err and "Traceback" not in found.err
    assert not target.exists()


@pytest.mark.parametrize("suffix", [".tflite", ".onnx", ".mlir"])
@pytest.mark.parametrize(
    ("op", "options", "reason"),
    [
        ("CONCATENATION", {"axis": 3}, "parameters of its operands and results differ"),
        ("PACK", {"axis": 0, "values_count": 1}, "parameters of its operands and results differ"),
        ("SQUARE", {}, "no kernel of i8 codes"),
    ],
)
def test_an_op_that_litert_refuses_is_one_error(
    op: str, options: dict[str, Any], reason: str, suffix: str, tmp_path: Path
) -> None:
    shape = (1, 2, 2, 3)
    ends = _codes("x", shape), _codes("y", (1, *shape) if op == "PACK" else shape, 2 * SCALE)
    data = models.model([ends[0]], [ends[1]], [models.op(op, ["x"], ["y"], options)])
    (tmp_path / "in.tflite").write_bytes(data)
    result = qopt("optimize", tmp_path / "in.tflite", "-o", tmp_path / f"out{suffix}")
    assert result.code == 1
    assert f"node 'y': error: LiteRT (litert-xnn) refuses {op}: " in result.err
    assert reason in result.err
    assert not (tmp_path / f"out{suffix}").exists()


def test_u8_codes_on_two_scales_are_joined_as_litert_does(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    ends = (("x", 256, 0.1, 3), ("v", 256, 0.05, 100), ("y", 512, 0.1, 3))
    x, v, y = (models.tensor(name, (1, size), "UINT8", s, z) for name, size, s, z in ends)
    data = models.model([x, v], [y], [models.op("CONCATENATION", ["x", "v"], ["y"], {"axis": 1})])
    (tmp_path / "in.tflite").write_bytes(data)
    assert qopt("optimize", tmp_path / "in.tflite", "-o", tmp_path / "out.onnx").code == 0
    every = np.arange(256, dtype=np.uint8)[None]
    (expected,) = models.run_litert(data, [every, every])
    found, given = qdialect.load(tmp_path / "out.onnx"), {"x": every, "v": every}
    (codes,) = qdialect.run(found, given, "onnxruntime").values()
    np.testing.assert_array_equal(codes, expected)


def test_kernels_are_for_litert(tmp_path: Path) -> None:
    found = qopt("optimize", "a.onnx", "-o", tmp_path / "b.onnx", "--kernels", "litert-ref")
    assert found.code != 0
    assert "--kernels is for .tflite and .circle files" in found.err


def test_inspect(source: Path) -> None:
    found = qopt("inspect", source, "--json")
    assert found.code == 0, found.err
    said = json.loads(found.out)
    assert said["ops"]["nn.conv2d"] == 1
    assert said["litert"]["ops"]["HARD_SWISH"] == 1
    assert said["litert"]["taken"] == {"CONV_2D": 1, "DEQUANTIZE": 1, "RELU": 1, "QUANTIZE": 1}
    assert "taken by XNNPACK in LiteRT: 4 of 5 ops" in qopt("inspect", source).out


def test_the_same_bytes_again(source: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "b.tflite", tmp_path / "c.tflite"
    for path in (first, second):
        qdialect.save(qdialect.optimize(qdialect.load(source), "litert"), path)
    assert first.read_bytes() == second.read_bytes()
