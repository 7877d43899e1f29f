"""`qopt optimize` of broken and hostile files: one error that names the node, exit 1, no file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.commands import call, qopt

Node = onnx.NodeProto


def node(kind: str, inputs: str, output: str, **attributes: Any) -> Node:
    """A node called as its output in capitals."""
    return helper.make_node(kind, inputs.split(), [output], output.upper(), **attributes)


def model(nodes: Sequence[Node], opset: int = 21, **constants: Any) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b", "c", "d"])
    held = [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


ZERO, SCALE = np.uint8(3), np.float32(0.1)


def casts(zero: Any = ZERO, scale: Any = SCALE, opset: int = 21, **more: Any) -> onnx.ModelProto:
    nodes = [node("QuantizeLinear", "x s z", "q", **more)]
    return model([*nodes, node("DequantizeLinear", "q s z", "y", **more)], opset, s=scale, z=zero)


def kernel(**change: Any) -> onnx.ModelProto:
    one = {"s": np.float32(0.1), "z": np.uint8(3), "v": np.float32(0.1), "o": np.int8(0)}
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("QLinearConv", "q s z w v o s z", "r"),
        node("DequantizeLinear", "r s z", "y"),
    ]
    return model(nodes, **one | {"w": np.ones((3, 3, 1, 1), np.int8)} | change)


def external(**entries: str) -> onnx.ModelProto:
    made = model([node("Add", "x k", "y")], k=np.zeros(3, np.float32))
    (tensor,) = made.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return made


def claims(*dims: int) -> onnx.ModelProto:
    made = model([node("Add", "x k", "y")], k=np.zeros(3, np.float32))
    made.graph.initializer[0].dims[:] = dims
    return made


WHOLE = casts().SerializeToString()
TWICE = model([node("Add", "x k", "y")], k=np.float32(1))
TWICE.graph.initializer.append(TWICE.graph.initializer[0])
RELU = node("Relu", "x", "y")

FAULTS: list[tuple[bytes | onnx.ModelProto, str]] = [
    (b"", "the file is empty"),
    (b"\x00\xff" * 500, "truncated, or not protobuf"),
    (WHOLE[: len(WHOLE) // 2], "truncated, or not protobuf"),
    (model([node("Add", "x b", "a"), node("Relu", "a", "b"), RELU]), "node 'A'|cycle"),
    (model([RELU, node("Abs", "x", "y")]), "tensor 'y' is defined twice"),
    (model([node("Conv", "x w", "y")]), "node 'Y'|reads tensor 'w', which is no"),
    (external(location="../../secret"), "initializer 'k'|outside the folder"),
    (external(location="/etc/passwd"), "initializer 'k'|outside the folder"),
    (external(location="model.onnx", offset=str(1 << 62)), "initializer 'k'|outside its external"),
    (external(location="model.onnx", length=str(1 << 62)), "initializer 'k'|outside its external"),
    (claims(1 << 40, 1 << 20), "initializer 'k'|its shape needs"),
    (claims(-1), "initializer 'k'|negative extent"),
    (model([node("Split", "x", "y", num_outputs=1 << 40)]), "node 'Y'|1099511627776 outputs"),
    (casts(zero=np.zeros(3, np.uint8)), "node 'Q'|1 scales but 3 zero points"),
    (casts(zero=np.int64(0)), "node 'Q'|int64, which QuantizeLinear of opset 21 does not take"),
    (casts(zero=np.uint16(0), opset=19), "node 'Q'|uint16, which QuantizeLinear of opset 19"),
    (casts(np.zeros(5, np.uint8), np.ones(5, np.float32)), "node 'Q'|5 scales for dimension 1"),
    (casts(np.zeros(3, np.uint8), np.ones(3, np.float32), axis=9), "node 'Q'|axis 9 is outside"),
    (kernel(o=np.uint8(0)), "node 'R'|zero point's type u8 is not the tensor's type i8"),
    (kernel(w=np.ones((3, 3, 1, 1), np.float32)), "node 'R'|w 'w' is float, which QLinearConv"),
    (kernel(v=np.ones(2, np.float32), o=np.zeros(2, np.int8)), "node 'R'|2 scales for dimension 0"),
    (kernel(w=np.ones((3, 7, 1, 1), np.int8)), "node 'R'"),
]


@pytest.mark.parametrize(("broken", "words"), FAULTS, ids=lambda v: v if isinstance(v, str) else "")
def test_one_error_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bytes | onnx.ModelProto, words: str
) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    (tmp_path / "secret").write_bytes(bytes(12))
    data = broken if isinstance(broken, bytes) else broken.SerializeToString()
    (folder / "model.onnx").write_bytes(data)
    monkeypatch.chdir(folder)
    result = call(qopt, "optimize", "model.onnx", "-o", "out.onnx")
    assert result.code == 1 and result.out == ""
    (line,) = result.err.splitlines()
    assert line.startswith("model.onnx") and line.count("error: ") == 1
    assert all(word in line for word in words.split("|")), line
    assert [path.name for path in folder.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (TWICE, "two initializers are named 'k'"),
    ],
)
def test_what_the_runtime_runs_is_written_as_it_is(
    tmp_path: Path, odd: onnx.ModelProto, why: str
) -> None:
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(odd, path)
    result = call(qopt, "optimize", str(path), "-o", str(out))
    assert result.code == 0 and why in result.err
    assert "the original is what was written" in result.err
    assert out.read_bytes() == path.read_bytes()
    assert call(qopt, "optimize", str(path), "-o", str(out), "--strict").code == 1


def test_the_frame_of_these_is_sound(tmp_path: Path) -> None:
    for index, sound in enumerate((casts(), kernel(), model([RELU]))):
        path = tmp_path / f"{index}.onnx"
        onnx.save(sound, path)
        assert call(qopt, "optimize", str(path), "-o", str(tmp_path / "out.onnx")).code == 0
