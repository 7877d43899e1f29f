"""Models too large for one protobuf message, as ONNX Runtime can load them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from qdialect.dialects.onnx import package
from qdialect.weights import remove_abandoned, stamp

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

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
        path.write_bytes(_with_weights_in(model, folder).SerializeToString())
        yield str(path)
    finally:
        rmtree(folder, ignore_errors=True)


def _with_weights_in(model: ModelProto, folder: Path) -> ModelProto:
    """A copy of `model` without its large weights, which are written to a file in `folder`."""
    helper = package("onnx.helper")
    graph: GraphProto = helper.make_graph(
        model.graph.node,
        model.graph.name,
        model.graph.input,
        model.graph.output,
        value_info=model.graph.value_info,
    )
    with (folder / _FILE).open("wb") as file:
        for tensor in model.graph.initializer:
            if tensor.ByteSize() < _SMALL or not tensor.HasField("raw_data"):
                graph.initializer.append(tensor)
            else:
                graph.initializer.append(_written(tensor, file))
    copy: ModelProto = helper.make_model(graph, opset_imports=model.opset_import)
    copy.ir_version = model.ir_version
    copy.functions.extend(model.functions)
    return copy


def _written(tensor: Any, file: Any) -> Any:
    """A tensor that says where in `file` its data now is."""
    data = tensor.raw_data
    file.seek(-(-file.tell() // _ALIGNMENT) * _ALIGNMENT)
    place = {"location": _FILE, "offset": file.tell(), "length": len(data)}
    file.write(data)
    onnx = package("onnx")
    external = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    external.data_location = onnx.TensorProto.EXTERNAL
    for key, value in place.items():
        external.external_data.add(key=key, value=str(value))
    return external
