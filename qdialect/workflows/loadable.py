"""Loading what a command has written, before it gets its name.

A file is loaded by its path in the engine it is for: ONNX Runtime for `.onnx`, LiteRT for
`.tflite`. Where that is not installed, and for other files, our reader loads it. A file that is
refused is removed, and what had its name stays.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from qdialect.errors import InputError, QError, Where

if TYPE_CHECKING:
    from qdialect.ir.weights import Load

NOT_LOADED = "not-loaded"
"""The code of the error of a file that is refused."""


def loader(
    path: Path,
    source: Path | None = None,
    *,
    kernels: str | None = None,
    notes: list[str] | None = None,
) -> Load:
    """What loads the file that gets the name `path`; InputError (`not-loaded`) if it is refused.

    ONNX Runtime may refuse a model with ops of somebody else's domain, and one whose `source` it
    refuses too: `notes` then say so. `kernels` are those that a TFLite file is for."""

    def load(file: Path) -> None:
        try:
            if path.suffix == ".onnx":
                _load_onnx(file)
            elif path.suffix in (".tflite", ".circle"):
                _load_tflite(file, path.suffix == ".tflite", kernels)
            else:
                _load_mlir(file)
        except QError as error:
            reason = error.message.replace(file.name, path.name)
            why = _not_for_the_runtime(file, source) if path.suffix == ".onnx" else None
            if why is None:
                raise InputError(
                    f"what would be written cannot be loaded: {reason}",
                    where=Where(str(path)),
                    code=NOT_LOADED,
                    notes=error.notes,
                ) from None
            if notes is not None:
                notes.append(f"{reason}: {why}")

    return load


def _load_onnx(file: Path) -> None:
    from qdialect.plugins.onnx.write import OrtEngine
    from qdialect.plugins.onnx.write.kernels import installed_runtime

    if installed_runtime() is not None:
        OrtEngine(file, optimize=False)
        return
    from qdialect.pipeline.plugins import Plugins
    from qdialect.plugins.onnx.read import import_model

    import_model(file, Plugins().session(allow_unregistered=True))


def _not_for_the_runtime(file: Path, source: Path | None) -> str | None:
    """Why ONNX Runtime need not load a model; None where it must."""
    from qdialect.plugins.onnx.dialect import KNOWN_DOMAINS
    from qdialect.plugins.onnx.write.engine import loads
    from qdialect.plugins.onnx.write.save import domains_of

    if foreign := domains_of(file) - KNOWN_DOMAINS:
        return f"the model has ops of '{min(foreign)}'"
    if source is not None and source.suffix == ".onnx" and not loads(source):
        return "nor does it load the original"
    return None


def _load_tflite(file: Path, in_litert: bool, kernels: str | None) -> None:
    from qdialect.plugins.tflite.file.read import read_file
    from qdialect.plugins.tflite.files import checked_kernels, litert_installed, refused_by_litert

    if not in_litert or not litert_installed():
        read_file(file)
    elif (error := refused_by_litert(file, checked_kernels(kernels))) is not None:
        raise error


def _load_mlir(file: Path) -> None:
    from qdialect.pipeline.plugins import Plugins
    from qdialect.plugins.mlir.read import load_module

    load_module(file, Plugins().session(allow_unregistered=True))
