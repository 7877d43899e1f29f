"""Arrays of .npy and .npz files, read only after their headers have been checked.

A header states the shape and type of an array before its bytes.  No memory is reserved for
what a header claims unless that many bytes follow and the machine could hold them, so a
damaged or malicious file is one InputError at once:

    {'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976, 4)}, then 64 bytes
    -> x.npz: error: array 'x' claims 18446744073709551616 bytes, but 64 follow its header
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import numpy as np
from numpy.lib import format as npy

from qdialect.errors import InputError, QError, Where

if TYPE_CHECKING:
    from numpy.typing import NDArray

    ReadHeader = Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype[Any]]]

T = TypeVar("T")

_HEADERS: dict[tuple[int, int], ReadHeader] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
    (3, 0): npy.read_array_header_2_0,  # the text of names of fields is read differently
}

_MOST_PER_BYTE = {ZIP_STORED: 1, ZIP_DEFLATED: 1032}
"""How many bytes a compressed one can stand for; other methods have no such limit."""


class Header(NamedTuple):
    """What a file says of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def npy_header(path: Path) -> Header:
    """The checked header of an .npy file."""
    with _refusing(path), path.open("rb") as file:
        return _header(file, path.stem, path.stat().st_size)


def npy_array(path: Path) -> NDArray[Any]:
    """The array of an .npy file, mapped into memory."""
    npy_header(path)
    with _refusing(path):
        return np.load(path, mmap_mode="r", allow_pickle=False)


def npz_headers(path: Path) -> dict[str, Header]:
    """The checked headers of all arrays of an .npz file, by name."""
    headers = dict(_entries(path, lambda file, name, size: _header(file, name, size)))
    total, memory = sum(map(_bytes, headers.values())), _physical_memory()
    if memory is not None and total > memory:
        message = f"its arrays take {total} bytes, but this machine has {memory} bytes of memory"
        raise _error(path, message)
    return headers


def npz_arrays(path: Path, names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of these names of an .npz file (None: all of them)."""
    npz_headers(path)
    read = _entries(path, lambda file, _, __: npy.read_array(file, allow_pickle=False), names)
    return dict(read)


def _entries(
    path: Path, read: Callable[[IO[bytes], str, int], T], names: Collection[str] | None = None
) -> Iterator[tuple[str, T]]:
    with _refusing(path), ZipFile(path) as archive:
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            if names is None or name in names:
                most = entry.compress_size * _MOST_PER_BYTE.get(
                    entry.compress_type, entry.file_size
                )
                if entry.file_size > most:
                    raise ValueError(f"array '{name}' is not so long as the file says")
                with archive.open(entry) as file:
                    yield name, read(file, name, entry.file_size)


def _header(file: IO[bytes], name: str, size: int) -> Header:
    """The next header in `file`, which is `size` bytes long."""
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"array '{name}' is of the unknown format version {version}")
    shape, _, dtype = _HEADERS[version](file)
    header, follow = Header(shape, dtype), size - file.tell()
    if min(shape, default=0) < 0:
        raise ValueError(f"array '{name}' has the shape {list(shape)}")
    if _bytes(header) > follow and not dtype.hasobject:  # objects are never read
        claim = f"array '{name}' claims {_bytes(header)} bytes"
        raise ValueError(f"{claim}, but {max(follow, 0)} follow its header")
    return header


def _bytes(header: Header) -> int:
    return prod(header.shape) * header.dtype.itemsize


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None  # not on this system


@contextmanager
def _refusing(path: Path) -> Generator[None]:
    """One InputError in place of whatever the readers of zip files and arrays raise on a file
    that is damaged: each has a dozen kinds of errors."""
    try:
        yield
    except (QError, GeneratorExit):
        raise
    except BadZipFile as error:
        raise _error(path, f"not an .npz file ({error})") from None
    except OSError as error:
        raise _error(path, error.strerror or str(error), "open") from None
    except Exception as error:
        message = str(error).split("\n")[0] or type(error).__name__
        raise _error(path, message) from None


def _error(path: Path, reason: str, verb: str = "read") -> InputError:
    return InputError(f"cannot {verb}: {reason}", where=Where(str(path)), code="unreadable-file")
