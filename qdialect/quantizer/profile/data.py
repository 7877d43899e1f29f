"""Calibration data: an .npz file, or a folder of .npz and .npy files in order of name.

| array, for an argument of type | is |
|---|---|
| `tensor<?x3x8x8xf32>`, of shape [n, 3, 8, 8] | n samples of shape [1, 3, 8, 8] |
| `tensor<2x3x8x8xf32>`, of shape [2n, 3, 8, 8] | n samples of shape [2, 3, 8, 8] |
| any, of one dimension more | a leading sample axis: n samples of the shape of the type |

With `whole`, each file is one sample as it is. An .npz holds one array for each argument,
by name; an .npy is the one argument there is. A sample is one run of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from qdialect.errors import InputError, Where
from qdialect.interpreter import argument_names
from qdialect.interpreter.values import declared_shape, runtime_dtype
from qdialect.ir.ops.shapes import DYNAMIC, compatible
from qdialect.ir.weights.numpy_files import Header, npy_array, npy_header, npz_arrays, npz_headers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Sample = dict[str, NDArray[Any]]


_INFINITE = "an infinite number", "data-infinite"


@dataclass(frozen=True)
class _File:
    """A file, how many samples it has and how many rows of an array one takes (None: the
    whole array, 0: one index of a leading sample axis)."""

    path: Path
    samples: int
    rows: Mapping[str, int | None]


class DataSet:
    """The samples of a data set for one function, read file by file."""

    def __init__(self, source: Path, function: FuncOp, *, whole: bool = False) -> None:
        """InputError when the data does not fit the function's arguments, or is empty."""
        types = function.function_type.inputs.data
        self._types = dict(zip(argument_names(function), types, strict=True))
        self._loaded: tuple[Path, Sample] | None = None
        paths = _paths(source)
        self._files = [self._scan(path, whole) for path in paths]
        self._files = [file for file in self._files if file.samples]
        if not self._files:
            _refuse(source, "there are no samples", "empty-data")

    def __len__(self) -> int:
        return sum(file.samples for file in self._files)

    def read(self, numbers: Sequence[int]) -> Iterator[Sample]:
        """The samples of these numbers; InputError (`data-nan`, `data-infinite`) where a number
        is not finite: no range holds it."""
        start, remaining = 0, list(numbers)
        for file in self._files:
            while remaining and remaining[0] < start + file.samples:
                yield self._sample(file, remaining.pop(0) - start)
            start += file.samples

    def _sample(self, file: _File, number: int) -> Sample:
        if self._loaded is None or self._loaded[0] != file.path:
            self._loaded = None
            self._loaded = file.path, _load(file.path, list(self._types))
        sample: Sample = {}
        for name, array in self._loaded[1].items():
            rows = file.rows[name]
            if rows is not None:
                array = array[number * rows : (number + 1) * rows] if rows else array[number]
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                what, code = ("NaN", "data-nan") if np.isnan(array).any() else _INFINITE
                _refuse(
                    file.path, f"input '{name}' has {what} in sample {number} of the file", code
                )
            sample[name] = np.asarray(array)
        return sample

    def _scan(self, path: Path, whole: bool) -> _File:
        headers = _headers(path, list(self._types))
        missing = [name for name in self._types if name not in headers]
        unknown = [name for name in headers if name not in self._types]
        if missing or unknown:
            problem = f"missing: {missing[0]}" if missing else f"unknown: {unknown[0]}"
            known = ", ".join(self._types)
            _refuse(path, f"the arrays are not those of the inputs {known} ({problem})", "bad-data")
        counts: dict[str, int] = {}
        rows: dict[str, int | None] = {}
        for name, kind in self._types.items():
            counts[name], rows[name] = _split(path, name, kind, headers[name], whole)
        if len(set(counts.values())) > 1:
            shown = ", ".join(f"{name}: {count}" for name, count in counts.items())
            _refuse(path, f"the arrays have different numbers of samples ({shown})", "bad-data")
        return _File(path, next(iter(counts.values())), rows)


def _split(
    path: Path, name: str, kind: Attribute, header: Header, whole: bool
) -> tuple[int, int | None]:
    """How many samples an array has, and how many rows each takes; see `_File`."""
    shape, dtype = header
    declared = declared_shape(kind)
    if dtype != runtime_dtype(kind):
        message = f"input '{name}' has dtype {dtype}, but its type is {kind}"
        if dtype.kind in "fiub":
            message += f": save array.astype('{runtime_dtype(kind)}')"
        _refuse(path, message, "bad-data")
    if whole:
        if compatible(declared, shape):
            return 1, None
    elif len(shape) == len(declared) + 1 and compatible(declared, shape[1:]):
        return shape[0], 0
    elif len(shape) == len(declared) and declared and compatible(declared[1:], shape[1:]):
        rows = 1 if declared[0] == DYNAMIC else declared[0]
        if rows and shape[0] % rows == 0:
            return shape[0] // rows, rows
        _refuse(
            path,
            f"input '{name}' has {shape[0]} rows, which are no samples of {rows} ({kind})",
            "bad-data",
        )
    _refuse(
        path,
        f"input '{name}' has shape {list(shape)}, which is no number of samples of {kind}",
        "bad-data",
        *_channels_last(declared, shape),
    )


def _channels_last(declared: tuple[int, ...], shape: tuple[int, ...]) -> Sequence[str]:
    """What to do where the samples would fit with their last dimension in front."""
    moved = (shape[0], shape[-1], *shape[1:-1]) if len(shape) > 2 else ()
    if len(moved) == len(declared) and compatible(declared[1:], moved[1:]):
        return [f"its channels seem to be last: np.moveaxis(array, -1, 1) is of {list(moved)}"]
    return []


def _paths(source: Path) -> list[Path]:
    if source.is_dir():
        found = sorted(path for path in source.iterdir() if path.suffix in (".npz", ".npy"))
        if not found:
            _refuse(source, "there are no .npz or .npy files in this folder", "empty-data")
        return found
    if not source.is_file():
        _refuse(source, "no such file or folder", "unreadable-file")
    if source.suffix not in (".npz", ".npy"):
        _refuse(source, "calibration data is an .npz or .npy file, or a folder", "bad-data")
    return [source]


def _headers(path: Path, names: list[str]) -> dict[str, Header]:
    return {_only(path, names): npy_header(path)} if path.suffix == ".npy" else npz_headers(path)


def _load(path: Path, names: list[str]) -> Sample:
    if path.suffix == ".npy":
        return {_only(path, names): npy_array(path)}
    return npz_arrays(path, names)


def _only(path: Path, names: list[str]) -> str:
    if len(names) != 1:
        _refuse(
            path, f"an .npy file is one array, but the inputs are {', '.join(names)}", "bad-data"
        )
    return names[0]


def _refuse(path: Path, message: str, code: str, *notes: str) -> NoReturn:
    raise InputError(message, where=Where(str(path)), code=code, notes=notes)
