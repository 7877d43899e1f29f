"""Writing a model file, with its weights inside or in files beside it.

Every file gets its name when all of them are written, and the model could be loaded from them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from filecmp import cmp
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp

from qdialect.errors import InputError, Where
from qdialect.ir.weights import (
    Load,
    abandoned,
    alone,
    hidden_prefix,
    remove_abandoned,
    replacing,
    stamp,
    within,
)
from qdialect.packages import package
from qdialect.plugins.onnx.dialect import EXTERNAL_DATA, MODEL
from qdialect.plugins.onnx.write.external_data import without_weights
from qdialect.plugins.onnx.write.written import Written

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

_MOST = (1 << 31) - (1 << 24)
"""Bytes of weights that a protobuf file holds, with room for the rest."""

_ASIDE = ".data"

_WITH_TENSORS = frozenset(
    f"{name}Proto"
    for name in ("Graph", "Node", "Attribute", "Function", "TrainingInfo", "SparseTensor", "Tensor")
)


def keeps_weights_beside(module: ModuleOp) -> bool:
    """Whether the model that `module` was read from had its weights in files beside it."""
    model = module.attributes.get(MODEL)
    return isinstance(model, DictionaryAttr) and EXTERNAL_DATA in model.data


def save_model(
    model: ModelProto | Written,
    path: str | os.PathLike[str],
    *,
    weights_beside: bool = False,
    load: Load | None = None,
) -> None:
    """Write `model` at `path`, whole or not at all (a temporary file, then a rename).

    With `weights_beside`, and where they are more than the 2 GB a protobuf file can hold,
    large weights go to `path` + ".data", which is written in full before either file gets its
    name.  InputError when the folder cannot be written, when `load` refuses the model, or when a
    file of that name is not one of the model that is replaced.
    """
    target = Path(path)
    written = model if isinstance(model, Written) else Written(model, {})
    every = map(written.data, written.model.graph.initializer)
    found = [len(data) for data in every if data is not None]
    beside = f"{target.resolve().name}.data"

    def fill(data: Mapping[str, Path]) -> tuple[ModelProto, bytes]:
        light = without_weights(written, data[beside], beside)
        return light, light.SerializeToString()

    if _is_plain(target) and found and (weights_beside or sum(found) > _MOST):
        _write_beside(target, [beside], fill, load)
        return
    try:
        with replacing(target, load) as temporary, temporary.open("wb") as file:
            file.writelines(written.serialized())
    except ValueError as error:
        raise InputError(f"cannot write the model: {error}", where=Where(str(target))) from None


def copy_model(
    source: str | os.PathLike[str], path: str | os.PathLike[str], *, load: Load | None = None
) -> None:
    """Copy the model file `source`, and the files beside it that it has weights in: byte for byte,
    under the names that it has for them.

    InputError for weights that are not in the folder of the model or below it, and as `save_model`.
    """
    target, final, folder = Path(path), Path(path).resolve(), Path(source).resolve().parent
    try:
        data = Path(source).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=Where(str(source))) from None
    light: ModelProto = package("onnx").ModelProto.FromString(data)
    names = sorted({location for _, location in _locations(light)})
    for name in names:
        if not within(folder, name) or within(final.parent, name) in (None, final):
            raise InputError(
                f"weights are in {name!r}, outside the folder of the model",
                where=Where(str(source)),
                code="bad-initializer",
            )

    def fill(files: Mapping[str, Path]) -> tuple[ModelProto, bytes]:
        for name, file in files.items():
            shutil.copyfile(folder / name, file)
        return light, data

    _write_beside(target, names if _is_plain(target) else [], fill, load, copied_from=folder)


def _is_plain(target: Path) -> bool:
    """Whether a file can have others beside it: a device or a pipe has not."""
    return target.is_file() or not target.exists()


def _write_beside(
    said: Path,
    names: list[str],
    fill: Callable[[Mapping[str, Path]], tuple[ModelProto, bytes]],
    load: Load | None,
    copied_from: Path | None = None,
) -> None:
    """Write a model and the files `names` beside it. `fill` writes these at other paths, and gives
    the model without its weights and as bytes.

    Whenever this is ended, the model that is there finds its own weights; of two processes
    that write it, one after the other gives all files their names."""
    target = said.resolve()
    if copied_from is not None:
        names = [name for name in names if not _is_copied(copied_from / name, target.parent / name)]
    weights = {name: target.parent / name for name in names}
    refuse = partial(_refuse_foreign, target=target, said=said)
    with alone(target.parent) as begin:
        begin()
        # What says that an ended process left them goes with the next temporary file.
        read = _files_of(target)
        left = {name: refuse(path, name, read) for name, path in weights.items()}
    with alone(target.parent) as begin, ExitStack() as stack:
        temporary = stack.enter_context(replacing(target))
        data: dict[str, Path] = {}
        for name, path in weights.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            data[name] = stack.enter_context(replacing(path))
        light, message = fill(data)
        if load is not None and _is_plain(target):
            temporary.write_bytes(_located(light, data, target.parent))
            load(temporary)
        temporary.write_bytes(message)
        begin()
        read = _files_of(target)
        for name, path in weights.items():
            if left[name] is None or left[name] != _identity(path):
                refuse(path, name, read)
        asides = {
            name: path.with_name(f"{hidden_prefix(path)}{stamp()}{_ASIDE}")
            for name, path in weights.items()
        }
        if not read.isdisjoint(weights):
            _read_from_aside(light, target, data, asides)
    for name, path in weights.items():
        asides[name].unlink(missing_ok=True)
        remove_abandoned(path.parent, hidden_prefix(path), _ASIDE)


def _is_copied(source: Path, copy: Path) -> bool:
    """Whether a copy of a file is where it is to be."""
    if not copy.is_file():
        return False
    return copy.samefile(source) or (not copy.is_symlink() and cmp(source, copy, shallow=False))


def _read_from_aside(
    light: ModelProto, target: Path, data: Mapping[str, Path], asides: Mapping[str, Path]
) -> None:
    """Put a model in place that has its weights in other files, for as long as those of its
    own names are exchanged: the old model would take the new weights for its own."""
    for name, aside in asides.items():
        try:
            os.link(data[name], aside)
        except OSError:  # not every file system has links
            shutil.copyfile(data[name], aside)
    with replacing(target) as temporary:
        temporary.write_bytes(_located(light, asides, target.parent))


def _located(light: ModelProto, files: Mapping[str, Path], folder: Path) -> bytes:
    """The model with other `files` beside it, by the names that it has for them."""
    model: ModelProto = package("onnx").ModelProto()
    model.CopyFrom(light)
    for tensor, location in _locations(model):
        for entry in tensor.external_data:
            if entry.key == "location" and location in files:
                entry.value = files[location].relative_to(folder).as_posix()
    return model.SerializeToString()


def _refuse_foreign(
    weights: Path, name: str, read: set[str], *, target: Path, said: Path
) -> tuple[int, ...] | None:
    """InputError if there is such a file, and it is not of the model that is replaced, nor of
    one whose writing was ended: then what tells it from others."""
    if not os.path.lexists(weights) or name in read:
        return None
    left = abandoned(target.parent, hidden_prefix(target), ".tmp")
    if any(name in _files_of(path) for path in left):
        return _identity(weights)
    raise InputError(
        f"the weights would go to '{name}', which is there and not of a model that is replaced",
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


def _files_of(path: Path) -> set[str]:
    try:
        model = package("onnx").ModelProto.FromString(path.read_bytes() if path.is_file() else b"")
    except (OSError, package("google.protobuf.message").DecodeError):
        return set()
    return {location for _, location in _locations(model)}


def domains_of(path: Path) -> set[str]:
    """The domains of the nodes of a model, without those of its own functions."""
    model = package("onnx").load(os.fspath(path), load_external_data=False)
    return {node.domain for node in model.graph.node} - {each.domain for each in model.functions}


def _locations(message: Any) -> Iterator[tuple[TensorProto, str]]:
    """The tensors in a message that are in files beside it, in bodies of nodes too, and where."""
    if message.DESCRIPTOR.name == "TensorProto":
        if message.data_location == message.EXTERNAL:
            found = (entry.value for entry in message.external_data if entry.key == "location")
            yield message, next(found, "")
        return
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.name in _WITH_TENSORS:
            for inner in value if hasattr(value, "extend") else (value,):
                yield from _locations(inner)
