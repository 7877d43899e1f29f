"""`.pt2` files without PyTorch: a zip of JSON and tensors.

The JSON is parsed, tensors are mapped from the file, and nothing else is opened: pickled
payloads (sample inputs, tensor subclasses) are never read.
"""

from __future__ import annotations

import json
import mmap
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qdialect.errors import InputError, Where
from qdialect.plugins.torch.program import ELEMENT_TYPES, Program, Weight
from qdialect.plugins.torch.schema import read_program

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LOCAL_HEADER = 30
"""Bytes before the name in the header of an entry."""

_NUMPY = {
    "complex<f32>": "<c8",
    "complex<f64>": "<c16",
    "i1": "?",
    "bf16": "<u2",
    "f8E4M3FN": "u1",
    "f8E5M2": "u1",
    "f16": "<f2",
    "f32": "<f4",
    "f64": "<f8",
}


def read_archive(path: str | Path) -> Program:
    """The program of a `.pt2` file; InputError (`invalid-torch`) for a file that is none."""
    return _Archive(Path(path)).program()


class _Archive:
    """One file: its entries, and the bytes of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = self._mapped()
        self._entries = self._listed()
        self._root = self._found_root()

    def program(self) -> Program:
        """The one model of the archive."""
        names = [n for n in self._entries if n.startswith("models/") and n.endswith(".json")]
        if len(names) != 1:
            found = ", ".join(name.removeprefix("models/")[:-5] for name in names) or "none"
            raise self._bad(f"the archive has {len(names)} models ({found}), and one is read")
        weights = _Weights(self)
        for kind in ("weights", "constants"):
            weights.add(kind, names[0].removeprefix("models/").removesuffix(".json"))
        return read_program(self.document(names[0]), weights, str(self._path))

    def document(self, name: str) -> dict[str, Any]:
        """An entry that is JSON."""
        try:
            document = json.loads(bytes(self.entry(name)))
        except (ValueError, RecursionError):
            raise self._bad(f"'{name}' is no JSON") from None
        if not isinstance(document, dict):
            raise self._bad(f"'{name}' is no JSON object")
        return document  # pyright: ignore[reportUnknownVariableType]

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def entry(self, name: str) -> memoryview:
        """The bytes of an entry, which is not compressed."""
        info = self._entries.get(name)
        if info is None:
            raise self._bad(f"the archive has no '{name}'")
        if info.compress_type != zipfile.ZIP_STORED:
            raise self._bad(f"'{name}' is compressed, which torch.export.save does not do")
        head = self._bytes[info.header_offset : info.header_offset + _LOCAL_HEADER]
        if len(head) != _LOCAL_HEADER or bytes(head[:4]) != b"PK\x03\x04":
            raise self._bad(f"'{name}' has no header where the directory says")
        lengths = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        begin = info.header_offset + _LOCAL_HEADER + lengths
        data = self._bytes[begin : begin + info.file_size]
        if len(data) != info.file_size:
            raise self._bad(f"'{name}' ends behind the end of the file")
        return data

    def _mapped(self) -> memoryview:
        try:
            with self._path.open("rb") as file:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError:
            raise self._bad("the file is empty") from None
        except OSError as error:
            raise InputError(
                f"cannot read the model: {error.strerror or error}", where=Where(str(self._path))
            ) from None

    def _listed(self) -> dict[str, zipfile.ZipInfo]:
        try:
            with zipfile.ZipFile(self._path) as archive:
                return {info.filename: info for info in archive.infolist()}
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, UnicodeDecodeError):
            raise self._bad("no archive of torch.export.save: truncated, or not a zip") from None

    def _found_root(self) -> str:
        """The folder that all entries are in; the entries by their names in it."""
        marks = [name for name in self._entries if name.rpartition("/")[2] == "archive_format"]
        if len(marks) != 1 or marks[0].count("/") > 1:
            raise self._bad(self._other_kind())
        root = marks[0].removesuffix("archive_format")
        self._entries = {
            name.removeprefix(root): info
            for name, info in self._entries.items()
            if name.startswith(root)
        }
        if bytes(self.entry("archive_format")) != b"pt2":
            raise self._bad("the archive says that it is no 'pt2'")
        if "byteorder" in self and bytes(self.entry("byteorder")) != b"little":
            raise self._bad("the archive was written on a big-endian machine")
        return root

    def _other_kind(self) -> str:
        names = [name.rpartition("/")[2] for name in self._entries]
        if "serialized_exported_program.json" in names:
            return (
                "a program of an older layout of torch.export.save: "
                "load it and save it with PyTorch 2.9 or newer"
            )
        if "data.pkl" in names:
            return (
                "a pickle of torch.save or torch.jit.save, which is never opened: "
                "use torch.export.export and torch.export.save"
            )
        return "no archive of torch.export.save"

    def _bad(self, reason: str) -> InputError:
        return InputError(reason, where=Where(str(self._path)), code="invalid-torch")

    # -- tensors ------------------------------------------------------------------------

    def tensor(self, kind: str, name: str, config: Mapping[str, Any]) -> Weight:
        """The tensor `name` as its entry in the configuration describes it."""
        if not isinstance(config, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise self._bad(f"the type of '{name}' cannot be read")
        if config.get("use_pickle"):
            error = self._bad(f"'{name}' is a tensor subclass, stored as a pickle: never opened")
            error.notes = (
                "call torchao.utils.unwrap_tensor_subclass(model) before torch.export.export",
            )
            raise error
        try:
            meta = config["tensor_meta"]
            code = int(meta["dtype"])
            shape = tuple(int(size["as_int"]) for size in meta["sizes"])
            strides = tuple(int(step["as_int"]) for step in meta["strides"])
            offset = int(meta["storage_offset"]["as_int"])
            path = f"data/{kind}/{config['path_name']}"
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self._bad(f"the type of '{name}' cannot be read") from None
        if code not in ELEMENT_TYPES:
            raise self._bad(f"'{name}' has elements of a type not known (code {code})")
        return Weight(code, self._strided(name, path, code, (shape, strides, offset)))

    def _strided(
        self,
        name: str,
        path: str,
        code: int,
        layout: tuple[tuple[int, ...], tuple[int, ...], int],
    ) -> NDArray[Any]:
        """A view of the bytes; InputError where it would leave them."""
        import numpy as np

        shape, strides, offset = layout
        dtype = np.dtype(_NUMPY.get(ELEMENT_TYPES[code]) or _integers(ELEMENT_TYPES[code]))
        if min((0, offset, *shape, *strides)) < 0 or len(shape) != len(strides):
            raise self._bad(f"'{name}' has a negative extent, stride or offset")
        if 0 in shape:
            return np.zeros(shape, dtype)
        data = self.entry(path)
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if (last + 1) * dtype.itemsize > len(data):
            raise self._bad(f"'{name}' reaches behind the {len(data)} bytes of its storage")
        steps = [step * dtype.itemsize for step in strides]
        return np.ndarray(shape, dtype, data, offset * dtype.itemsize, steps)


def _integers(name: str) -> str:
    """`ui16` as numpy spells it."""
    width = int(name.lstrip("ui"))
    return f"<{'u' if name.startswith('u') else 'i'}{width // 8}"


class _Weights(Mapping[str, Weight]):
    """The tensors of an archive by their dotted paths; read when somebody asks."""

    def __init__(self, archive: _Archive) -> None:
        self._archive = archive
        self._known: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._read: dict[str, Weight] = {}

    def add(self, kind: str, model: str) -> None:
        """The tensors that a configuration lists; none where there is no such file."""
        name = f"data/{kind}/{model}_{kind}_config.json"
        if name in self._archive:
            entries: Any = self._archive.document(name).get("config")
            if isinstance(entries, dict):
                for path, config in entries.items():  # pyright: ignore[reportUnknownVariableType]
                    self._known[str(path)] = (kind, config)  # pyright: ignore[reportUnknownArgumentType]

    def __getitem__(self, path: str) -> Weight:
        if path not in self._read:
            kind, config = self._known[path]
            self._read[path] = self._archive.tensor(kind, path, config)
        return self._read[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
