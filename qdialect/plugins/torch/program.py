"""An exported program as plain data: what the importer reads, wherever it came from.

A program is one graph of nodes in order, what its inputs and outputs are, and the tensors that
parameters, buffers and constants have.  Values have names; sizes are extents over symbols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from qdialect.errors import Where
from qdialect.plugins.common.extents import Extent

if TYPE_CHECKING:
    from numpy.typing import NDArray

ELEMENT_TYPES: Mapping[int, str] = {
    1: "ui8",
    2: "i8",
    3: "i16",
    4: "i32",
    5: "i64",
    6: "f16",
    7: "f32",
    8: "f64",
    10: "complex<f32>",
    11: "complex<f64>",
    12: "i1",
    13: "bf16",
    28: "ui16",
    29: "f8E4M3FN",
    30: "f8E5M2",
    34: "ui32",
    35: "ui64",
}
"""Codes of element types in archives (not those of `torch.dtype`) as types of MLIR."""


class Ref(NamedTuple):
    """A value of the graph: a tensor, or a number that the program computes."""

    name: str


class ElementType(NamedTuple):
    """An argument that is a `torch.dtype`, by its code."""

    code: int


class Other(NamedTuple):
    """An argument that says nothing about the function: a device, a layout, a memory format."""

    kind: str
    text: str


class Subgraph(NamedTuple):
    """An argument that is a graph of its own."""

    name: str
    graph: Graph


Argument = Any
"""None, a bool, an int, a float, a str, one of the classes above, or a list of those."""


class Tensor(NamedTuple):
    """The type of a value: the code of its elements, its shape, and whether its elements lie in
    memory in their order without gaps."""

    code: int
    shape: tuple[Extent, ...]
    contiguous: bool = False


@dataclass(frozen=True)
class Node:
    """One op: `target` is its name and overload (`aten.conv2d.default`), `arguments` are by the
    names in the schema of the op (all positional ones of Python functions: "0", "1" ...).

    `results` has a name, a list of names (absent: None) or None for each result.
    """

    name: str
    target: str
    arguments: Mapping[str, Argument]
    results: Sequence[str | list[str | None] | None]
    module: str = ""
    """The dotted path of the module it is called in."""
    source: tuple[str, int] | None = None
    """File and line of the model's code."""

    @property
    def names(self) -> list[str | None]:
        """The names of all results, those of lists one after the other."""
        names: list[str | None] = []
        for entry in self.results:
            names += entry if isinstance(entry, list) else [entry]
        return names

    @property
    def op(self) -> str:
        """The name of the op without its overload."""
        parts = self.target.split(".")
        return ".".join(parts[:2]) if len(parts) > 2 else self.target

    @property
    def overload(self) -> str:
        """`default`, `Tensor`, `dim` ..., "" for Python's functions."""
        parts = self.target.split(".")
        return parts[2] if len(parts) > 2 else ""


@dataclass
class Graph:
    """Nodes in order, and the types of all values."""

    inputs: list[Argument]
    outputs: list[Argument]
    nodes: list[Node]
    tensors: dict[str, Tensor]
    numbers: dict[str, Extent]


InputKind = Literal["parameter", "buffer", "constant", "input", "number", "other"]
OutputKind = Literal["output", "buffer_mutation", "input_mutation", "other"]


class Input(NamedTuple):
    """A placeholder: what it is, its name in the graph, and the dotted path of its tensor (or the
    name of the argument, or the number that it is)."""

    kind: InputKind
    name: str
    target: Any


class Output(NamedTuple):
    """A result: what it is, the value, and the path of the buffer or name of the input that it
    is written to."""

    kind: OutputKind
    value: Argument
    target: str


class Weight(NamedTuple):
    """A tensor of the program: elements as numpy has them (bits, where it has no such type)."""

    code: int
    array: NDArray[Any]


@dataclass
class Program:
    """An exported program; `file` is where it was read from."""

    graph: Graph
    inputs: list[Input]
    outputs: list[Output]
    weights: Mapping[str, Weight]
    file: str | None = None
    ranges: Mapping[str, tuple[int, int | None]] = field(
        default_factory=dict[str, "tuple[int, int | None]"]
    )

    def where(self, node: Node | None = None) -> Where:
        """A place in the program: the model's line, if it is known, else the name of the node."""
        if node is None:
            return Where(self.file)
        label = f"{node.module}.{node.name}" if node.module else node.name
        if node.source is not None:
            return Where(node.source[0], node.source[1], node=label)
        return Where(self.file, node=label)
