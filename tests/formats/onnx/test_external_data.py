"""Weights in a file beside the model stay in one, whole or not at all."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import ModelBuilder

import qdialect as qd
from qdialect.cli import qopt, translate
from qdialect.errors import InputError
from qdialect.formats.onnx.write import OrtEngine, save_model
from qdialect.formats.onnx.write import external_data as beside
from qdialect.formats.onnx.write import save as saving

WEIGHT = np.random.default_rng(0).integers(-100, 100, (40, 40)).astype(np.float32)


@pytest.fixture
def net(tmp_path: Path) -> Path:
    b = ModelBuilder()
    b.const("w", WEIGHT, np.float32)
    b.const("c", 2.5, np.float32)
    b.node("MatMul", [b.input("x", [3, 40]), "w"], "m")
    b.node("Add", ["m", "c"], "y")
    b.output("y")
    model = b.model()
    model.producer_name, model.graph.doc_string = "somebody", "a net"
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "net.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def locations(path: Path) -> dict[str, str]:
    graph = onnx.load(path, load_external_data=False).graph
    return {
        t.name: e.value for t in graph.initializer for e in t.external_data if e.key == "location"
    }


def y(path: Path) -> np.ndarray:
    x = np.arange(120, dtype=np.float32).reshape(3, 40)
    return OrtEngine(path, optimize=False).run({"x": x})["y"]


def test_weights_stay_beside_the_model(net: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    qd.save(qd.load(net), out)
    assert names(tmp_path) == ["in", "out.onnx", "out.onnx.data"]
    assert locations(out) == {"w": "out.onnx.data"}  # the number is in the model
    assert WEIGHT.tobytes() in (tmp_path / "out.onnx.data").read_bytes()
    again = onnx.load(out)
    assert (again.producer_name, again.graph.doc_string) == ("somebody", "a net")
    np.testing.assert_array_equal(y(out), y(net))
    assert names(net.parent) == ["net.onnx", "w.bin"]


def test_so_they_do_through_text(net: Path, tmp_path: Path) -> None:
    text, out = tmp_path / "net.mlir", tmp_path / "out.onnx"
    qd.save(qd.load(net), text)
    assert "external_data" in text.read_text()
    assert translate.main(["--export-onnx", str(text), "-o", str(out)]) == 0
    assert locations(out) == {"w": "out.onnx.data"}
    np.testing.assert_array_equal(y(out), y(net))


@pytest.mark.parametrize("flags", [[], ["--inline-weights"]])
def test_optimize(net: Path, tmp_path: Path, flags: list[str]) -> None:
    out = tmp_path / "out.onnx"
    assert qopt.main(["optimize", str(net), "-o", str(out), *flags]) == 0
    assert ("out.onnx.data" in names(tmp_path)) == (not flags)
    np.testing.assert_array_equal(y(out), y(net))


def test_a_model_of_one_file_stays_one(net: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.onnx"
    onnx.save(onnx.load(net), one)
    qd.save(qd.load(one), tmp_path / "out.onnx")
    assert names(tmp_path) == ["in", "one.onnx", "out.onnx"]


def test_in_place_and_again(net: Path) -> None:
    expected = y(net)
    model = qd.load(net)
    for _ in range(2):
        qd.save(model, net)
        assert names(net.parent) == ["net.onnx", "net.onnx.data", "w.bin"]
        np.testing.assert_array_equal(y(net), expected)
        model = qd.load(net)


def test_a_file_of_somebody_else_is_not_replaced(net: Path, tmp_path: Path) -> None:
    out, theirs = tmp_path / "out.onnx", tmp_path / "out.onnx.data"
    theirs.write_bytes(b"mine")
    with pytest.raises(InputError, match=r"'out\.onnx\.data', which is there and not of a model"):
        qd.save(qd.load(net), out)
    assert theirs.read_bytes() == b"mine" and not out.exists()
    theirs.unlink()
    theirs.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="which is there"):
        qd.save(qd.load(net), out)
    assert names(tmp_path) == ["in", "out.onnx.data"]


def test_nothing_is_left_of_what_fails(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.onnx"
    qd.save(qd.load(net), out)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(beside, "_written", full)
    with pytest.raises(InputError, match="No space left"):
        qd.save(qd.load(net), out)
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert after == before


def test_what_is_too_large_for_one_file(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "_MOST", 4096)
    save_model(onnx.load(net), tmp_path / "out.onnx")
    assert locations(tmp_path / "out.onnx") == {"w": "out.onnx.data"}
    np.testing.assert_array_equal(y(tmp_path / "out.onnx"), y(net))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such devices")
def test_a_device_takes_all(net: Path) -> None:
    save_model(onnx.load(net), "/dev/null", weights_beside=True)
    assert not Path("/dev/null.data").exists()
