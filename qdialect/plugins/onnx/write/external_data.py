"""Models whose weights are in a file beside them: what is too large for one protobuf message, as
ONNX Runtime can load it, and what was so before."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from typing import TYPE_CHECKING, BinaryIO

from qdialect.ir.weights import remove_abandoned, stamp
from qdialect.plugins.onnx.write.written import Written, without

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

LARGE = 1 << 26
"""From how many bytes of weights on they are written beside the model."""
_FILE = "weights"
_FOLDER = "qdialect-model-"
_ALIGNMENT = 4096


@contextmanager
def loadable(model: ModelProto) -> Generator[bytes | str]:
    """`model` as bytes, or as the path of a temporary file with its large weights beside
    it, which are written one by one and copied nowhere else.

    Folders of processes that were killed go.
    """
    if sum(tensor.ByteSize() for tensor in model.graph.initializer) < LARGE:
        yield model.SerializeToString()
        return
    remove_abandoned(Path(gettempdir()), _FOLDER)
    folder, owner = Path(gettempdir()) / f"{_FOLDER}{stamp()}", os.getpid()
    path = folder / "model.onnx"
    try:
        folder.mkdir(mode=0o700)
        light = without_weights(Written(model, {}), folder / _FILE, _FILE)
        path.write_bytes(light.SerializeToString())
        source = str(path)
    except OSError:
        source = model.SerializeToString()
    try:
        yield source
    finally:
        if os.getpid() == owner:
            rmtree(folder, ignore_errors=True)


def without_weights(written: Written, path: Path, name: str) -> ModelProto:
    """A copy of the model without its large weights, which are written to a new file at `path`
    and are in one called `name` beside the model."""
    light: ModelProto = without(written.model, "graph")
    light.graph.CopyFrom(without(written.model.graph, "initializer"))
    with path.open("wb") as file:
        for tensor in written.model.graph.initializer:
            data = written.data(tensor)
            if data is not None:
                tensor = _written(tensor, data, file, name)
            light.graph.initializer.append(tensor)
    return light


def _written(
    tensor: TensorProto, data: memoryview | bytes, file: BinaryIO, name: str
) -> TensorProto:
    """A tensor that says where in `file`, called `name`, its data now is."""
    file.seek(-(-file.tell() // _ALIGNMENT) * _ALIGNMENT)
    place = {"location": name, "offset": file.tell(), "length": len(data)}
    file.write(data)
    external: TensorProto = without(tensor, "raw_data")
    external.data_location = external.EXTERNAL
    for key, value in place.items():
        external.external_data.add(key=key, value=str(value))
    return external
