"""Writing a model file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from qdialect.errors import InputError, Where
from qdialect.weights import replacing

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
        with replacing(target) as temporary:
            temporary.write_bytes(data)
    except OSError as error:
        raise InputError(
            f"cannot write the model: {error.strerror or error}", where=Where(str(target))
        ) from None
