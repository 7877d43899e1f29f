"""Models from and to TFLite and Circle files.

A module read from such a file says in `tflite.kernels` whose arithmetic its ops have: that of
LiteRT's XNNPACK with the optimized kernels for the rest ("litert-xnn"), of the optimized kernels
alone ("litert-opt"), or of the reference kernels ("litert-ref"). The same attribute says for which
of them a file is written: what is judged is that file, read again with these kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from xdsl.dialects.builtin import ModuleOp, StringAttr

from qdialect.errors import QError, UsageError
from qdialect.plugins.tflite.dialect import KERNELS_KEY, kernels_of_module

if TYPE_CHECKING:
    from qdialect.ir.context import QContext
    from qdialect.ir.weights import Load
    from qdialect.plugins.tflite.file.model import File, Subgraph

Kernels = Literal["litert-xnn", "litert-opt", "litert-ref"]
TfliteForm = Literal["tflite", "circle"]

KERNELS = ("litert-xnn", "litert-opt", "litert-ref")
DEFAULT: Kernels = "litert-xnn"
SUFFIXES: Mapping[str, TfliteForm] = {".tflite": "tflite", ".circle": "circle"}
"""What a file is by its suffix."""
TARGETS = {".tflite": "litert", ".circle": "circle"}
"""The target of a result by its suffix, where none is named."""
CASTS = frozenset({"QUANTIZE", "DEQUANTIZE"})
_MEANING = {
    "litert-xnn": "XNNPACK's kernels, with LiteRT's optimized ones for what it does not take",
    "litert-opt": "LiteRT's optimized kernels, without XNNPACK",
    "litert-ref": "LiteRT's reference kernels",
}


def checked_kernels(name: str | None) -> Kernels:
    """A name of kernels, by default those that LiteRT runs by default; UsageError."""
    if name is None:
        return DEFAULT
    if name not in KERNELS:
        raise UsageError(f"kernels are {', '.join(KERNELS)}, not '{name}'", code="unknown-kernels")
    return name


def kernels_named(module: ModuleOp) -> Kernels:
    """Whose arithmetic a module has, or its file is to have."""
    return checked_kernels(kernels_of_module(module))


def name_kernels(module: ModuleOp, kernels: str | None) -> None:
    """Say whose arithmetic a module has, or its file is to have."""
    module.attributes[KERNELS_KEY] = StringAttr(checked_kernels(kernels))


def said(kernels: Kernels) -> str:
    """What kernels are meant, for people."""
    return f"computed as {_MEANING[kernels]} do (--kernels {kernels})"


def read_module(path: Path, ctx: QContext, kernels: str | None = None) -> ModuleOp:
    """The verified module of a file, in the `tflite` dialect; InputError, UnsupportedError."""
    from qdialect.plugins.tflite.file.read import read_file

    return module_of_file(read_file(path), ctx, checked_kernels(kernels))


def module_of_file(file: File, ctx: QContext, kernels: Kernels) -> ModuleOp:
    """The verified module of a file that was read, in the `tflite` dialect."""
    from qdialect.plugins.mlir.read import verify_module
    from qdialect.plugins.tflite.file.to_module import read_module as module_of

    module = module_of(file, ctx)
    verify_module(module, ctx)
    name_kernels(module, kernels)
    return module


@dataclass(frozen=True)
class WrittenTflite:
    """A model as the file that it becomes, computed for `kernels`."""

    file: File
    kernels: Kernels

    @cached_property
    def data(self) -> bytes:
        """The bytes of the file."""
        from qdialect.plugins.tflite.file.write import file_bytes

        return bytes(file_bytes(self.file))

    @cached_property
    def for_litert(self) -> bytes:
        """The bytes as LiteRT takes them: of a Circle file, those of a TFLite file that says the
        same."""
        from qdialect.plugins.tflite.file.write import file_bytes

        if self.file.kind == "tflite":
            return self.data
        return bytes(file_bytes(replace(self.file, kind="tflite", version=3)))

    def executed(self, delegated: int | None = None) -> ExecutedTflite:
        """The counts of the file."""
        return count(self.file, delegated)


def save_tflite(written: WrittenTflite, path: Path, load: Load | None = None) -> None:
    """Write the file, whole or not at all; InputError (`unwritable-file`)."""
    from qdialect.plugins.tflite.file.write import write_file

    write_file(written.file, path, load=load)


@dataclass(frozen=True)
class ExecutedTflite:
    """What LiteRT runs of a file: ops, those with a float result by kind (DEQUANTIZE left out),
    QUANTIZE and DEQUANTIZE, and how many ops XNNPACK takes (None: nobody knows)."""

    nodes: int
    floats: Mapping[str, int]
    casts: int
    delegated: int | None = None

    @property
    def float_nodes(self) -> int:
        """How many ops have a float result."""
        return sum(self.floats.values())

    def kinds(self, most: int = 4) -> str:
        """The float kinds, the most frequent first: "CONV_2D 3, ADD 1"."""
        ordered = sorted(self.floats.items(), key=lambda item: (-item[1], item[0]))
        shown = [f"{kind} {count}" for kind, count in ordered[:most]]
        return ", ".join([*shown, "..."] if len(ordered) > most else shown)

    def as_json(self) -> dict[str, Any]:
        """The counts as JSON writes them."""
        return {
            "nodes": self.nodes,
            "floats": dict(self.floats),
            "casts": self.casts,
            "delegated": self.delegated,
        }


def count(file: File, delegated: int | None = None) -> ExecutedTflite:
    """The counts of all subgraphs of a file."""
    floats: dict[str, int] = {}
    nodes = casts = 0
    for subgraph in file.subgraphs:
        for op in subgraph.operators:
            nodes += 1
            casts += op.op in CASTS
            if op.op not in CASTS and _gives_floats(subgraph, op.outputs):
                floats[op.op] = floats.get(op.op, 0) + 1
    return ExecutedTflite(nodes, floats, casts, delegated)


def _gives_floats(subgraph: Subgraph, outputs: list[int]) -> bool:
    return any(subgraph.tensors[n].type.startswith("FLOAT") for n in outputs)


def litert_installed() -> bool:
    """Whether LiteRT is there to run files."""
    from qdialect.plugins.tflite.engine import installed

    return installed()


def refused_by_litert(source: Path | bytes, kernels: Kernels) -> QError | None:
    """Why LiteRT does not load a file; None where it does."""
    from qdialect.plugins.tflite.engine import InChild

    try:
        InChild(source, kernels).child.close()
    except QError as error:
        return error
    return None
