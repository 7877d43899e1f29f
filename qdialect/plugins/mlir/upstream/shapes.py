"""Shapes and element types, as far as they are known.

An extent that is not known is -1, and a shape without a rank is None:

    tensor<2x?xi8>   (2, -1)      tensor<*xi8>   None      i8   ()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import (
    IntegerType,
    MemRefType,
    Signedness,
    TensorType,
    UnrankedMemRefType,
    UnrankedTensorType,
    VectorType,
)
from xdsl.ir import Attribute

SHAPED = (TensorType, VectorType, MemRefType, UnrankedTensorType, UnrankedMemRefType)
RANKED = (TensorType, VectorType, MemRefType)

Shape = tuple[int, ...]
MOST_TYPES = 1 << 14
"""The memory of types is emptied when it has so many."""

T = TypeVar("T")


def remembered(function: Callable[[Attribute], T]) -> Callable[[Attribute], T]:
    """The function, which remembers the types it was asked about by their `id`; an entry refers
    to its type so that the `id` stays unique."""
    known: dict[int, tuple[Attribute, T]] = {}

    @wraps(function)
    def asked(kind: Attribute) -> T:
        entry = known.get(id(kind))
        if entry is None:
            if len(known) >= MOST_TYPES:
                known.clear()
            entry = known[id(kind)] = kind, function(kind)
        return entry[1]

    return asked


@remembered
def shape_of(kind: Attribute) -> Shape | None:
    """The shape of a type that has one; () of a scalar, None of a type without a rank."""
    if isinstance(kind, UnrankedTensorType | UnrankedMemRefType):
        return None
    return tuple([max(n, -1) for n in kind.get_shape()]) if isinstance(kind, RANKED) else ()


def element_or_self(kind: Attribute) -> Attribute:
    """The element type of a shaped type; a scalar type itself."""
    return cast("Any", kind).element_type if isinstance(kind, SHAPED) else kind


def storage_of(kind: Attribute) -> Attribute:
    """The element type; of quantized numbers that of the integers that are stored."""
    element = element_or_self(kind)
    storage = getattr(getattr(element, "data", None), "storage", None)
    if storage is None:
        return element
    return IntegerType(
        storage.width, Signedness.SIGNLESS if storage.signed else Signedness.UNSIGNED
    )


@remembered
def storage_text(kind: Attribute) -> str:
    """The same as text."""
    return str(storage_of(kind))


def layout_of(kind: Attribute) -> str:
    """How a quantized element type has its scales (`tensor`, `axis`, `block`); empty for others."""
    return cast("Any", kind).data.layout.value if kind.name == "quant.uniform" else ""


def fit(*shapes: Shape | None) -> bool:
    """Whether shapes may be equal: ranks are, and extents where both are known."""
    known = {shape for shape in shapes if shape is not None}
    if len(known) < 2:
        return True
    if len({len(shape) for shape in known}) > 1:
        return False
    return all(len({n for n in extents if n >= 0}) <= 1 for extents in zip(*known, strict=True))


def have_fitting_shapes(kinds: Sequence[Attribute]) -> bool:
    """Whether types may have one shape; a scalar and a tensor do not."""
    shaped = [isinstance(kind, SHAPED) for kind in kinds]
    return any(shaped) == all(shaped) and fit(*map(shape_of, kinds))


def merged(*shapes: Shape | None) -> Shape | None:
    """What is known of a shape by shapes that fit."""
    known = [shape for shape in shapes if shape is not None]
    return tuple(map(max, *known)) if len(known) > 1 else known[0] if known else None


def broadcast(shapes: Iterable[Shape]) -> Shape | None:
    """The shape to which extents of 1 are repeated, as MLIR has it; None if there is none.

    An extent that is not known is taken for the one that it meets.
    """
    result: Shape = ()
    for shape in shapes:
        rank = max(len(result), len(shape))
        pairs = zip(
            (1,) * (rank - len(result)) + result, (1,) * (rank - len(shape)) + shape, strict=True
        )
        extents = [
            b if a == 1 or (a < 0 and b > 1) else a if b in (1, -1, a) else None for a, b in pairs
        ]
        if None in extents:
            return None
        result = tuple(cast("list[int]", extents))
    return result


def listed(shape: Shape | None) -> str:
    """A shape for people."""
    if shape is None:
        return "[*]"
    return f"[{', '.join('?' if n < 0 else str(n) for n in shape)}]"


def joined(shapes: Sequence[Shape], axis: int) -> Shape | None:
    """Shapes of one rank along a dimension; None where they differ in another."""
    others = [(*shape[:axis], -1, *shape[axis + 1 :]) for shape in shapes]
    if not fit(*others):
        return None
    rest, along = merged(*others) or (), [shape[axis] for shape in shapes]
    size = sum(along) if min(along) >= 0 else -1
    return (*rest[:axis], size, *rest[axis + 1 :])
