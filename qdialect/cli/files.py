"""Files the commands read and write: arrays, JSON, and checks before long work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qdialect.cli.terminal import say
from qdialect.errors import InputError, UsageError, Where, did_you_mean
from qdialect.ir.weights import replacing, save_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.cli.flags import Arguments
    from qdialect.ir.context import QContext
    from qdialect.workflows.model import Model

    Arrays = Mapping[str, NDArray[Any]]


def writable(name: str, suffixes: Sequence[str]) -> Path:
    """`name` as a path; an error now if nothing could be written there later."""
    path = Path(name)
    if path.suffix not in suffixes:
        hint = did_you_mean(path.suffix, suffixes)
        raise UsageError(f"the name of '{name}' must end in {' or '.join(suffixes)}{hint}")
    if not path.parent.is_dir():
        raise InputError("no such folder", where=Where(str(path.parent)), code="unwritable-file")
    if path.is_dir() or not _takes_files(path.parent):
        raise InputError("cannot write here", where=Where(name), code="unwritable-file")
    if path.suffix == ".onnx":
        from qdialect.packages import package

        package("onnx")
    return path


def _takes_files(folder: Path) -> bool:
    """Whether a file can be made there: permissions alone do not tell (root, network shares)."""
    from tempfile import TemporaryFile

    try:
        with TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def report_output(name: str | None) -> Path | None:
    """Where `--report` writes its page; an error now if that could not be done later."""
    if name is None:
        return None
    from qdialect.report.layout import require_layout

    path = writable(name, (".html",))
    require_layout()
    return path


def load_model(args: Arguments, name: str) -> Model:
    """The model in a file, with the extents that `--dim` and `--typical-dim` tell."""
    from qdialect import api

    dims, typical = args.extents("dim"), args.extents("typical-dim")
    return api.load(name, dims=dims, typical_dims=typical)


def load_arrays(name: str) -> dict[str, NDArray[Any]]:
    """The arrays of an `.npz` file by name."""
    from qdialect.ir.weights.numpy_files import npz_arrays

    return npz_arrays(Path(name))


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write an `.npz` file, whole or not at all."""
    import numpy as np

    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def remarks_output(sessions: Sequence[QContext], name: str | None) -> None:
    """The remarks of sessions: JSON to the file `name`, or lines to standard error."""
    remarks = [remark for ctx in sessions for remark in ctx.remarks.remarks]
    outputs = [bound for ctx in sessions for bound in ctx.remarks.outputs]
    if name is None:
        for remark in (*remarks, *(bound for bound in outputs if bound.real)):
            say(remark)
        return
    from qdialect.rewrite.remarks import RemarkLog

    save_text(Path(name), RemarkLog(remarks, outputs).to_json() + "\n")
