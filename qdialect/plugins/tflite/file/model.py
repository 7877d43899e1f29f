"""A TFLite or Circle file as plain data: what its tables say, and nothing more.

Numbers of tensors, operators and subgraphs are positions in the lists here. Enums are the schema's
names ("CONV_2D", "SAME"), and options have all fields of their table, with the schema's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["tflite", "circle"]

ABSENT = -1
"""The number of an input that an operator does without."""


@dataclass
class Blocks:
    """Scales (and zero points) of blocks of a weight: numbers of tensors of the subgraph."""

    scales: int
    zero_points: int
    size: int


@dataclass
class Quantization:
    """What the codes of a tensor stand for: (q - zero_point) * scale, one pair for all or one
    along `axis`. All lists are empty where nothing is said."""

    scales: NDArray[Any]
    zero_points: NDArray[Any]
    axis: int = 0
    minimum: NDArray[Any] | None = None
    maximum: NDArray[Any] | None = None
    blocks: Blocks | None = None
    #: what the schema has besides, as it is: the name of its table and the fields
    details: tuple[str, Mapping[str, Any]] | None = None


@dataclass
class Tensor:
    """A value of a subgraph. `data` is None unless it is constant; 4-bit and 2-bit numbers are
    unpacked, one to a byte; strings are bytes (`object`), bf16 and 8-bit floats bit patterns. It
    may be mapped from the file: not to be written into. Where `is_stored_otherwise`, it is the
    bytes of the file as they are."""

    name: str
    shape: tuple[int, ...]
    #: the schema's name of the type: "INT8", "FLOAT32"
    type: str
    #: the shape with -1 for extents that only a run tells
    signature: tuple[int, ...] | None = None
    data: NDArray[Any] | None = None
    quantization: Quantization | None = None
    is_variable: bool = False
    has_rank: bool = True
    #: the fields of `SparsityParameters`
    sparsity: Mapping[str, Any] | None = None
    #: what tensors of tensors hold: the fields of `VariantSubType`
    variants: Sequence[Mapping[str, Any]] = ()
    #: how Circle packed the bytes
    compression: str = "NONE"

    @property
    def is_stored_otherwise(self) -> bool:
        """Whether the file does not have the elements one behind the other."""
        return self.sparsity is not None or self.compression != "NONE"


@dataclass
class Operator:
    """One op: `op` is the schema's name, or that of a custom op, which has `custom` bytes."""

    op: str
    version: int
    inputs: list[int]
    outputs: list[int]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_custom: bool = False
    custom: bytes = b""
    intermediates: list[int] = field(default_factory=list[int])
    #: the table that the options are in where it is not the op's own; empty for none
    table: str | None = None
    #: which inputs it changes
    mutating: list[bool] = field(default_factory=list[bool])
    #: its place in the metadata for debuggers
    debug: int = -1


@dataclass
class Subgraph:
    """A function: `operators` are in the order they run in."""

    name: str
    tensors: list[Tensor]
    inputs: list[int]
    outputs: list[int]
    operators: list[Operator]
    debug: int = -1


@dataclass
class Signature:
    """What callers know a subgraph by: the names of its inputs and outputs, and the numbers of
    their tensors."""

    key: str
    subgraph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass
class File:
    """A whole file. `name` is for messages."""

    kind: Kind
    version: int
    subgraphs: list[Subgraph]
    description: str = ""
    signatures: list[Signature] = field(default_factory=list[Signature])
    metadata: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    #: metadata without names, which old files have
    unnamed_metadata: Sequence[bytes] = ()
    name: str = "<file>"
