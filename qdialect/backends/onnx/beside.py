"""Models whose weights are in a file beside them: what is too large for one protobuf message, as
ONNX Runtime can load it, and what was so before."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, BinaryIO

from qdialect.dialects.onnx import package
from qdialect.weights import remove_abandoned, stamp

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto

LARGE = 1 << 30
"""From how many bytes of weights on they are written beside the model."""
_FILE = "weights"
_FOLDER = "qdialect-model-"
_SMALL = 1 << 10
_ALIGNMENT = 4096


@contextmanager
def loadable(model: ModelProto) -> Generator[bytes | str]:
    """`model` as bytes, or as the path of a temporary file with its large weights beside
    it, which are written one by one and copied nowhere else.

    The runtime has read or mapped what it needs once it has loaded the model.  Folders of
    processes that were killed go.
    """
    if sum(tensor.ByteSize() for tensor in model.graph.initializer) < LARGE:
        yield model.SerializeToString()
        return
    remove_abandoned(Path(gettempdir()), _FOLDER)
    folder = Path(gettempdir()) / f"{_FOLDER}{stamp()}"
    folder.mkdir(mode=0o700)
    try:
        path = folder / "model.onnx"
        light = without_weights(model, folder / _FILE, _FILE)
        path.write_bytes(light.SerializeToString())
        yield str(path)
    finally:
        rmtree(folder, ignore_errors=True)


def without_weights(model: ModelProto, path: Path, name: str) -> ModelProto:
    """A copy of `model` without its large weights, which are written to a new file at `path`
    and are in one called `name` beside the model."""
    onnx = package("onnx")
    light: ModelProto = onnx.ModelProto()
    _copy(model, light, "graph")
    graph: GraphProto = light.graph
    _copy(model.graph, graph, "initializer")
    with path.open("wb") as file:
        for tensor in model.graph.initializer:
            graph.initializer.append(_written(tensor, file, name) if is_large(tensor) else tensor)
    return light


def is_large(tensor: TensorProto) -> bool:
    """Whether a weight may be beside the model; what shapes are computed from is in it."""
    return tensor.HasField("raw_data") and len(tensor.raw_data) >= _SMALL


def _copy(source: Any, target: Any, left_out: str) -> None:
    """Every field of a message but one."""
    for field, value in source.ListFields():
        if field.name == left_out:
            continue
        if hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        elif hasattr(value, "CopyFrom"):
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)


def _written(tensor: TensorProto, file: BinaryIO, name: str) -> TensorProto:
    """A tensor that says where in `file`, called `name`, its data now is."""
    data = tensor.raw_data
    file.seek(-(-file.tell() // _ALIGNMENT) * _ALIGNMENT)
    place = {"location": name, "offset": file.tell(), "length": len(data)}
    file.write(data)
    onnx = package("onnx")
    external: TensorProto = onnx.TensorProto()
    _copy(tensor, external, "raw_data")
    external.data_location = onnx.TensorProto.EXTERNAL
    for key, value in place.items():
        external.external_data.add(key=key, value=str(value))
    return external
