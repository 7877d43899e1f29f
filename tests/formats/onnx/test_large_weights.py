"""Large weights are not copied: not by the parser, not by passes that leave them alone, not by
what writes them; and once where a pass changes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import ModelBuilder

import qdialect as qd
from qdialect.plugins.onnx.read.load import cut_out
from qdialect.plugins.onnx.write import write_model
from qdialect.plugins.onnx.write.written import Written
from tests.support.large_models import measured, write_network

RANDOM = np.random.default_rng(3)
MEGA = 1 << 20


def network(weight: np.ndarray) -> onnx.ModelProto:
    b = ModelBuilder()
    b.const("w", weight, np.float32)
    b.const("c", 2.5, np.float32)
    b.node("MatMul", [b.input("x", [3, weight.shape[0]]), "w"], "m")
    b.node("Add", ["m", "c"], "y")
    b.output("y")
    model = b.model()
    model.producer_name, model.graph.doc_string = "somebody", "a net"
    model.graph.initializer[0].doc_string = "after the data"
    model.metadata_props.add(key="k", value="v")
    return model


def put_back(message: bytes | memoryview, weights: dict[str, memoryview]) -> onnx.ModelProto:
    model = onnx.ModelProto.FromString(bytes(message))
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.value in weights:
                tensor.raw_data = bytes(weights[entry.value])
        if tensor.HasField("raw_data"):
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
    return model


# -- reading ------------------------------------------------------------------------


def test_a_large_weight_is_cut_out() -> None:
    model = network(RANDOM.standard_normal((200, 100)))
    data = memoryview(model.SerializeToString())
    found = cut_out(data)
    assert len(found.message) < 1000 and [len(w) for w in found.weights.values()] == [80000]
    assert put_back(*found) == model


def test_what_says_that_it_is_elsewhere_stays() -> None:
    model = network(RANDOM.standard_normal((200, 100)))
    tensor = model.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.DEFAULT  # as `onnx.load` leaves it
    found = cut_out(memoryview(model.SerializeToString()))
    assert len(found.weights) == 1
    tensor.data_location = onnx.TensorProto.EXTERNAL
    assert not cut_out(memoryview(model.SerializeToString())).weights
    tensor.ClearField("data_location")
    tensor.external_data.add(key="location", value="w.bin")
    assert not cut_out(memoryview(model.SerializeToString())).weights


def test_damaged_messages_are_left_to_the_parser() -> None:
    """Whatever is cut out: what is parsed is the same, or nothing is in both."""
    whole = network(RANDOM.standard_normal((200, 100))).SerializeToString()
    outline = [*range(80), *range(len(whole) - 200, len(whole))]
    cuts = 0
    for _ in range(3000):
        changed = bytearray(whole)
        for _ in range(int(RANDOM.integers(1, 3))):
            changed[int(RANDOM.choice(outline))] = int(RANDOM.integers(256))
        if RANDOM.integers(4) == 0:
            del changed[int(RANDOM.choice(outline)) :]
        data = bytes(changed)
        try:
            expected = onnx.ModelProto.FromString(data)
        except Exception:
            expected = None
        message, weights = cut_out(memoryview(data))
        cuts += bool(weights)
        try:
            found = onnx.ModelProto.FromString(bytes(message))
        except Exception:
            assert expected is None
            continue
        assert expected is not None
        if weights:
            found = put_back(message, weights)
            for tensor in expected.graph.initializer:
                if tensor.HasField("raw_data"):
                    tensor.ClearField("data_location")
        assert found.SerializeToString() == expected.SerializeToString()
    assert cuts > 300


def test_a_model_in_bytes_and_in_a_file(tmp_path: Path) -> None:
    model = network(RANDOM.standard_normal((200, 100)))
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    loaded = qd.load(path)
    assert "external_data" not in str(loaded)  # it is one file, and stays one
    qd.save(loaded, tmp_path / "out.onnx")
    again = onnx.load(tmp_path / "out.onnx")
    assert again.graph.initializer[0].raw_data == model.graph.initializer[0].raw_data


# -- writing ------------------------------------------------------------------------


def test_pieces_are_the_message(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(
        network(RANDOM.standard_normal((200, 100))).SerializeToString()
    )
    loaded = qd.load(tmp_path / "net.onnx")
    pieces = write_model(loaded.module, loaded.ctx).serialized()
    assert any(isinstance(piece, memoryview) and len(piece) == 80000 for piece in pieces)
    whole = write_model(loaded.module, loaded.ctx).whole()
    assert b"".join(pieces) == whole.SerializeToString()


def test_pieces_of_any_tensor() -> None:
    model = network(RANDOM.standard_normal((20, 100)))
    expected = model.SerializeToString()
    tensor = model.graph.initializer[0]
    data = memoryview(tensor.raw_data)
    tensor.ClearField("raw_data")
    assert b"".join(Written(model, {tensor.name: data}).serialized()) == expected


# -- memory -------------------------------------------------------------------------

linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is asked of Linux")


@linux
@pytest.mark.parametrize("case", ["s8-external", "s8-inline", "s8-mlir", "f32-inline"])
def test_untouched_weights_take_no_memory(case: str, tmp_path: Path) -> None:
    small, _ = write_network(tmp_path, case, 1, 16)
    least = measured(small, tmp_path / f"least{small.suffix}")
    source, largest = write_network(
        tmp_path, case, 1, 96 * MEGA // 4096 // (4 if "32" in case else 1)
    )
    assert largest == 96 * MEGA
    # It could not have them if it wanted to.
    limit = least["data"] + 48 * MEGA
    found = measured(source, tmp_path / f"out{source.suffix}", limit=limit)
    assert found["anonymous"] - least["anonymous"] < 32 * MEGA


@linux
@pytest.mark.parametrize("case", ["u8-external", "t8-inline", "q32-external"])
def test_changed_weights_are_copied_once(case: str, tmp_path: Path) -> None:
    """Re-encoded, transposed, quantized."""
    small, _ = write_network(tmp_path, case, 1, 16)
    least = measured(small, tmp_path / "least.onnx")
    source, _ = write_network(tmp_path, case, 1, 96 * MEGA // 4096)
    copy = 96 * MEGA  # of codes
    limit = least["data"] + copy + 64 * MEGA
    found = measured(source, tmp_path / "out.onnx", limit=limit)
    over = found["anonymous"] - least["anonymous"]
    assert copy * 0.9 < over < copy + 48 * MEGA


# -- several processes --------------------------------------------------------------

WRITER = """
import sys
import numpy as np, onnx
from onnx import helper, TensorProto
from qdialect.plugins.onnx.write import save_model
number, path = int(sys.argv[1]), sys.argv[2]
weight = helper.make_tensor("w", 1, [4000], np.full(4000, number, "f4").tobytes(), raw=True)
graph = helper.make_graph(
    [helper.make_node("Add", ["x", "w"], ["y"])], "g",
    [helper.make_tensor_value_info("x", 1, [4000])],
    [helper.make_tensor_value_info("y", 1, [4000])], [weight], doc_string=str(number),
)
model = helper.make_model(graph)
for _ in range(40):
    save_model(model, path, weights_beside=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_processes_that_write_one_model_leave_a_pair(tmp_path: Path) -> None:
    path = tmp_path / "out.onnx"
    command = [sys.executable, "-c", WRITER]
    for _ in range(2):
        writers = [
            subprocess.Popen([*command, str(n), str(path)], stderr=subprocess.PIPE)
            for n in range(4)
        ]
        for writer in writers:
            assert writer.communicate()[1] == b"" and writer.returncode == 0
        model = onnx.load(path)
        (weight,) = model.graph.initializer
        held = np.frombuffer(weight.raw_data, np.float32)
        assert (held == int(model.graph.doc_string)).all()
        assert sorted(each.name for each in tmp_path.iterdir()) == ["out.onnx", "out.onnx.data"]
