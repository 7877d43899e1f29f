"""Caches of decoders: found by what moves their elements, on codes from input to output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import qdialect as qd
from qdialect.analysis.caches import find_caches
from qdialect.cli.qopt import main
from qdialect.quantizer.recipe import Recipe
from tests.support.decoder_model import HEADS, WIDTH, decoder, write_steps
from tests.support.processor import skip_where_pairs_saturate


def loaded(path: Path) -> Any:
    """A file as ONNX has it."""
    return onnx.load(path)  # pyright: ignore[reportUnknownMemberType]


def written(folder: Path, **options: bool) -> tuple[Path, Path]:
    """The network, and samples of it."""
    path, data = folder / "net.onnx", folder / "data"
    onnx.save(decoder(**options), path)  # pyright: ignore[reportUnknownMemberType]
    write_steps(data)
    return path, data


def test_caches_are_what_is_joined_and_returned(tmp_path: Path) -> None:
    path, _ = written(tmp_path)
    model = qd.load(path)
    found, refused = find_caches(model.function(), model.ctx)
    assert [(cache.argument, cache.result) for cache in found] == [(1, 1), (2, 2)]
    assert [len(cache.ops) for cache in found] == [1, 1]
    assert refused == {0: "nothing is joined to it"}


@pytest.mark.parametrize("shape_read", [False, True])
@pytest.mark.parametrize("method", ["minmax", "mse"])
def test_steps_with_codes_follow_the_floats(tmp_path: Path, method: Any, shape_read: bool) -> None:
    ort: Any = pytest.importorskip("onnxruntime")
    path, data = written(tmp_path, shape_read=shape_read)
    recipe = Recipe(caches=True, calibration=method)
    made = qd.quantize(qd.load(path), data, recipe=recipe)
    caches = made.caches()
    assert [(cache.input, cache.output) for cache in caches] == [("a", "c"), ("b", "d")]
    out = tmp_path / "q.onnx"
    qd.save(made.model, out)
    stated = {p.key: p.value for p in loaded(out).metadata_props}["qdialect.qparams"]
    assert set(json.loads(stated)) >= {"a", "b", "c", "d"}
    skip_where_pairs_saturate()
    sessions = [ort.InferenceSession(p, providers=["CPUExecutionProvider"]) for p in (path, out)]
    floats = {name: np.zeros((1, HEADS, 0, WIDTH // HEADS), np.float32) for name in "ab"}
    codes: dict[str, Any] = {name: array.astype(np.uint8) for name, array in floats.items()}
    random = np.random.default_rng(2)
    for _ in range(12):
        x = random.normal(size=(1, 1, WIDTH)).astype(np.float32)
        expected, *new = sessions[0].run(["y", "c", "d"], {"x": x, **floats})
        got, *after = sessions[1].run(["y", "c", "d"], {"x": x, **codes})
        floats, codes = dict(zip("ab", new, strict=True)), dict(zip("ab", after, strict=True))
        cosine = (expected * got).sum() / np.linalg.norm(expected) / np.linalg.norm(got)
        assert cosine > 0.995
    for cache, name in zip(caches, "ab", strict=True):
        scale, zero = cache.qparams.scale, cache.qparams.zero_point
        assert codes[name].dtype == np.uint8 and 4 * codes[name].nbytes == floats[name].nbytes
        real = scale * (codes[name].astype(np.float32) - zero)
        clipped = np.clip(floats[name], -zero * scale, (255 - zero) * scale)
        assert np.abs(real - clipped).max() < 3 * scale


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, data = written(tmp_path)
    out = tmp_path / "q.mlir"
    common = ["quantize", str(path), "--data", str(data), "-o", str(out), "--caches"]
    assert main([*common, "--engine=numpy", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["caches"]
    assert [entry["input"] for entry in said] == ["a", "b"]
    assert {entry["type"] for entry in said} == {"u8"}


def test_a_model_without_caches_is_refused(tmp_path: Path) -> None:
    path, data = written(tmp_path, returned=False)
    with pytest.raises(qd.QError, match="no input of the model is a cache") as caught:
        qd.quantize(qd.load(path), data, recipe=Recipe(caches=True))
    assert "'a': what is made of it by movements is not returned" in caught.value.notes


def test_weights_alone_take_no_data(tmp_path: Path) -> None:
    path, _ = written(tmp_path)
    out = tmp_path / "q.onnx"
    flags = ["-o", str(out), "--weights=u4", "--block=16", "--quiet"]
    assert main(["quantize", str(path), *flags]) == 0
    assert [node.op_type for node in loaded(out).graph.node].count("MatMulNBits") == 3
    assert main(["quantize", str(path), *flags, "--caches"]) == 2


def test_a_program_of_pytorch_takes_four_bits_without_data(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    ort: Any = pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 2, 64, activation="gelu", batch_first=True)
    x = torch.randn(1, 8, 32)
    exported = torch.export.export(layer.eval(), (x,))
    torch.export.save(exported, tmp_path / "net.pt2")
    out = tmp_path / "q.onnx"
    flags = ["--weights=u4", "--block=32", "--quiet"]
    assert main(["quantize", str(tmp_path / "net.pt2"), "-o", str(out), *flags]) == 0
    assert [node.op_type for node in loaded(out).graph.node].count("MatMulNBits") == 4
    session = ort.InferenceSession(out, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    with torch.no_grad():
        expected = exported.module()(x).numpy()
    assert (expected * got).sum() / np.linalg.norm(expected) / np.linalg.norm(got) > 0.98
