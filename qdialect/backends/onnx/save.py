"""Writing a model file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from qdialect.errors import InputError, Where

if TYPE_CHECKING:
    from onnx import ModelProto


def save_model(model: ModelProto, path: str | os.PathLike[str]) -> None:
    """Write `model` at `path`, whole or not at all (a temporary file, then a rename).

    InputError when the folder cannot be written, or the model is over the 2 GB a
    protobuf file can hold.
    """
    target = Path(path)
    try:
        data = model.SerializeToString()
    except ValueError as error:
        raise InputError(f"cannot write the model: {error}", where=Where(str(target))) from None
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
            try:
                file.write(data)
                file.close()
                os.chmod(file.name, 0o666 & ~_umask())
                os.replace(file.name, target)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise InputError(
            f"cannot write the model: {error.strerror or error}", where=Where(str(target))
        ) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
