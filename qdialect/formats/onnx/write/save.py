"""Writing a model file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp

from qdialect.dialects.onnx import EXTERNAL_DATA, MODEL, package
from qdialect.errors import InputError, Where
from qdialect.formats.onnx.write.external_data import without_weights
from qdialect.formats.onnx.write.written import Written
from qdialect.weights import abandoned, alone, hidden_prefix, remove_abandoned, replacing, stamp

if TYPE_CHECKING:
    from onnx import ModelProto

_MOST = (1 << 31) - (1 << 24)
"""Bytes of weights that a protobuf file holds, with room for the rest."""

_ASIDE = ".data"


def keeps_weights_beside(module: ModuleOp) -> bool:
    """Whether the model that `module` was read from had its weights in files beside it."""
    model = module.attributes.get(MODEL)
    return isinstance(model, DictionaryAttr) and EXTERNAL_DATA in model.data


def save_model(
    model: ModelProto | Written, path: str | os.PathLike[str], *, weights_beside: bool = False
) -> None:
    """Write `model` at `path`, whole or not at all (a temporary file, then a rename).

    With `weights_beside`, and where they are more than the 2 GB a protobuf file can hold,
    large weights go to `path` + ".data", which is written in full before either file gets its
    name.  InputError when the folder cannot be written, or a file of that name is not one of
    the model that is replaced.
    """
    target = Path(path)
    written = model if isinstance(model, Written) else Written(model, {})
    every = map(written.data, written.model.graph.initializer)
    found = [len(data) for data in every if data is not None]
    plain = target.is_file() or not target.exists()
    try:
        if plain and found and (weights_beside or sum(found) > _MOST):
            _write_both(written, target.resolve(), target)
            return
        with replacing(target) as temporary, temporary.open("wb") as file:
            file.writelines(written.serialized())
    except ValueError as error:
        raise InputError(f"cannot write the model: {error}", where=Where(str(target))) from None
    except OSError as error:
        raise InputError(
            f"cannot write the model: {error.strerror or error}", where=Where(str(target))
        ) from None


def copy_model(source: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write the model file `source` at `path`: byte for byte where it is one file, else with its
    weights beside it."""
    onnx = package("onnx")
    light = onnx.load(os.fspath(source), load_external_data=False)
    if any(t.data_location == t.EXTERNAL for t in light.graph.initializer):
        save_model(onnx.load(os.fspath(source)), path, weights_beside=True)
        return
    data = Path(source).read_bytes()
    try:
        with replacing(Path(path)) as temporary:
            temporary.write_bytes(data)
    except OSError as error:
        raise InputError(
            f"cannot write the model: {error.strerror or error}", where=Where(str(path))
        ) from None


def _write_both(written: Written, target: Path, said: Path) -> None:
    """Whenever this is ended, the model that is there finds its own weights; of two processes
    that write it, one after the other gives both files their names."""
    weights = target.with_name(f"{target.name}.data")
    aside = weights.with_name(f"{hidden_prefix(weights)}{stamp()}{_ASIDE}")
    with alone(target.parent) as begin:
        begin()
        # What says that an ended process left them goes with the next temporary file.
        left = _refuse_foreign(weights, target, _locations(target), said)
    with (
        alone(target.parent) as begin,
        replacing(target) as temporary,
        replacing(weights) as data,
    ):
        light = without_weights(written, data, weights.name)
        temporary.write_bytes(light.SerializeToString())
        begin()
        read = _locations(target)
        if left is None or left != _identity(weights):
            _refuse_foreign(weights, target, read, said)
        if weights.name in read:
            _read_from_aside(light, target, weights, data, aside)
    aside.unlink(missing_ok=True)
    remove_abandoned(target.parent, hidden_prefix(weights), _ASIDE)


def _read_from_aside(
    light: ModelProto, target: Path, weights: Path, data: Path, aside: Path
) -> None:
    """Put a model in place that has its weights in another file, for as long as that of its
    own name is exchanged: the old model would take the new weights for its own."""
    model: ModelProto = package("onnx").ModelProto()
    model.CopyFrom(light)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location" and entry.value == weights.name:
                entry.value = aside.name
    try:
        os.link(data, aside)
    except OSError:  # not every file system has links
        shutil.copyfile(data, aside)
    with replacing(target) as temporary:
        temporary.write_bytes(model.SerializeToString())


def _refuse_foreign(
    weights: Path, target: Path, read: set[str], said: Path
) -> tuple[int, ...] | None:
    """InputError if there is such a file, and it is not of the model that is replaced, nor of
    one whose writing was ended: then what tells it from others."""
    if not os.path.lexists(weights) or weights.name in read:
        return None
    left = abandoned(target.parent, hidden_prefix(target), ".tmp")
    if any(weights.name in _locations(path) for path in left):
        return _identity(weights)
    raise InputError(
        f"the weights would go to '{weights.name}', which is there and not of a model that is "
        "replaced",
        where=Where(str(said)),
        code="unwritable-file",
    )


def _identity(path: Path) -> tuple[int, ...] | None:
    """What tells a file from another that is put in its place."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _locations(path: Path) -> set[str]:
    """The files that a model has its weights in."""
    onnx = package("onnx")
    try:
        model = onnx.load(os.fspath(path), load_external_data=False)
    except Exception:  # it is no model, or none at all
        return set()
    entries = (entry for tensor in model.graph.initializer for entry in tensor.external_data)
    return {entry.value for entry in entries if entry.key == "location"}
