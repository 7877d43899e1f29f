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
from qdialect.plugins.onnx.write import OrtEngine, copy_model, save_model
from qdialect.plugins.onnx.write import external_data as beside
from qdialect.plugins.onnx.write import save as saving
from qdialect.workflows.loadable import loader

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


# -- copies -------------------------------------------------------------------------------


def copied(net: Path, locations: dict[str, str], data: bytes) -> Path:
    """The model with its weights at other places, in a body too, each in `data`."""
    model = onnx.load(net, load_external_data=False)
    tensor = model.graph.initializer[0]
    for entry in tensor.external_data:
        if entry.key == "location":
            entry.value = locations["w"]
    body = onnx.helper.make_graph([], "body", [], [], [])
    inner = body.initializer.add()
    inner.CopyFrom(tensor)
    inner.name = "inner"
    inner.external_data[0].value = locations["inner"]
    condition = onnx.numpy_helper.from_array(np.array(True), "condition")
    body.output.append(onnx.helper.make_tensor_value_info("inner", 1, [40, 40]))
    branches = {"then_branch": body, "else_branch": body}
    model.graph.initializer.append(condition)
    model.graph.node.append(onnx.helper.make_node("If", ["condition"], ["if"], **branches))
    net.write_bytes(model.SerializeToString())
    for location in locations.values():
        place = net.parent / location
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return net


def test_a_copy_is_a_copy_of_bytes(net: Path, tmp_path: Path) -> None:
    data = (net.parent / "w.bin").read_bytes()
    copied(net, {"w": "w.bin", "inner": "below/it/inner.bin"}, data)
    out = tmp_path / "out"
    out.mkdir()
    for _ in range(2):  # again over itself
        copy_model(net, out / "other.onnx")
        assert (out / "other.onnx").read_bytes() == net.read_bytes()
        assert (out / "w.bin").read_bytes() == (out / "below/it/inner.bin").read_bytes() == data
        assert names(out) == ["below", "other.onnx", "w.bin"]
        np.testing.assert_array_equal(y(out / "other.onnx"), y(net))
    # what the model that is replaced has its weights in may change
    (net.parent / "w.bin").write_bytes(data[::-1])
    copy_model(net, out / "other.onnx")
    assert (out / "w.bin").read_bytes() == data[::-1]
    assert names(out) == ["below", "other.onnx", "w.bin"]


def test_a_copy_beside_its_original_shares_the_weights(net: Path) -> None:
    before = (net.parent / "w.bin").stat()
    copy_model(net, net.parent / "again.onnx")
    assert (net.parent / "again.onnx").read_bytes() == net.read_bytes()
    assert (net.parent / "w.bin").stat().st_mtime_ns == before.st_mtime_ns
    assert names(net.parent) == ["again.onnx", "net.onnx", "w.bin"]


def test_a_copy_replaces_no_file_of_somebody_else(net: Path, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"'w\.bin', which is there and not of a model"):
        copy_model(net, tmp_path / "out.onnx")
    assert (tmp_path / "w.bin").read_bytes() == b"mine"
    assert names(tmp_path) == ["in", "w.bin"]


@pytest.mark.parametrize("how", ["above", "absolute", "link", "nothing", "itself"])
def test_weights_elsewhere_are_not_copied(net: Path, tmp_path: Path, how: str) -> None:
    (tmp_path / "secret").write_bytes(WEIGHT.tobytes())
    (net.parent / "link").symlink_to(tmp_path / "secret")
    out = tmp_path / "out"
    out.mkdir()
    location = {
        "above": "../secret",
        "absolute": str(tmp_path / "secret"),
        "link": "link",
        "nothing": "",
        "itself": "out.onnx",
    }[how]
    model = onnx.load(net, load_external_data=False)
    model.graph.initializer[0].external_data[0].value = location
    net.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match="outside the folder of the model"):
        copy_model(net, out / "out.onnx")
    assert names(out) == []


def test_what_the_runtime_reads_of_a_longer_file_is_copied(tmp_path: Path) -> None:
    w = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=1)
    w.external_data.add(key="location", value="ok.bin")
    node = onnx.helper.make_node("Add", ["w", "x"], ["y"])
    ports = [onnx.helper.make_tensor_value_info(name, 1, [4]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:], [w])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 8
    source, out = tmp_path / "in.onnx", tmp_path / "to" / "out.onnx"
    source.write_bytes(model.SerializeToString())
    (tmp_path / "ok.bin").write_bytes(np.arange(16, dtype=np.float32).tobytes())
    out.parent.mkdir()
    assert qopt.main(["optimize", str(source), "-o", str(out), "--race=0"]) == 0
    assert out.read_bytes() == source.read_bytes()
    assert (out.parent / "ok.bin").read_bytes() == (tmp_path / "ok.bin").read_bytes()
    x = np.ones(4, np.float32)
    found = OrtEngine(out, optimize=False).run({"x": x})["y"]
    np.testing.assert_array_equal(found, x + np.arange(4))


@pytest.mark.parametrize("beside", [True, False])
def test_a_model_that_is_refused_gets_no_name(net: Path, tmp_path: Path, beside: bool) -> None:
    out = tmp_path / "out.onnx"
    qd.save(qd.load(net), out)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    broken = onnx.load(net)
    broken.graph.node[0].op_type = "NoSuchOp"
    with pytest.raises(InputError, match="cannot be loaded") as caught:
        save_model(broken, out, weights_beside=beside, load=loader(out))
    assert caught.value.code == "not-loaded"
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert after == before


def test_a_model_of_another_domain_is_not_for_the_runtime(net: Path, tmp_path: Path) -> None:
    out, notes = tmp_path / "out.onnx", list[str]()
    foreign = onnx.load(net)
    foreign.graph.node[0].op_type, foreign.graph.node[0].domain = "Theirs", "somebody"
    foreign.opset_import.append(onnx.helper.make_opsetid("somebody", 1))
    save_model(foreign, out, load=loader(out, notes=notes))
    assert out.exists() and "the model has ops of 'somebody'" in notes[0]
