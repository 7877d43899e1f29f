"""Scatters that write one box: `nn.insert`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import element_type
from qdialect.plugins.onnx.read.movement import movable
from qdialect.plugins.onnx.read.node import Node

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.plugins.onnx.read.importer import Importer

Results = list[SSAValue] | None
Stretch = tuple[int, int]
"""Start and step."""


def scatter_nd(imp: Importer, node: Node) -> Results:
    """`ScatterND` of constant indices that step through each dimension they number."""
    indices = imp.static(node.input(1))
    shape, update = movable(imp, node.input(0)), movable(imp, node.input(2))
    if indices is None or shape is None or update is None or not _replaces(node):
        return None
    if indices.ndim < 1 or indices.ndim != indices.shape[-1] + 1 or not indices.size:
        return None
    numbered = indices.shape[-1]
    if len(update) != len(shape) or numbered > len(shape):
        return None
    stretches: list[Stretch] = []
    for axis in range(numbered):
        stretch = _stretch(indices[..., axis], axis, shape[axis])
        if stretch is None:
            return None
        stretches.append(stretch)
    rest = list(zip(shape[numbered:], update[numbered:], strict=True))
    if any(DYNAMIC in pair and pair[0] != pair[1] for pair in rest):
        return None
    return _insert(imp, node, [*stretches, *((0, 1) for _ in rest)])


def scatter_elements(imp: Importer, node: Node) -> Results:
    """`ScatterElements` of constant indices that step along its axis, the same ones in
    every row."""
    indices = imp.static(node.input(1))
    shape, update = movable(imp, node.input(0)), movable(imp, node.input(2))
    if indices is None or shape is None or update is None or not _replaces(node):
        return None
    axis = int(node.get("axis", 0))
    if not indices.size or len(shape) != indices.ndim or not -len(shape) <= axis < len(shape):
        return None
    axis %= len(shape)
    stretch = _stretch(indices, axis, shape[axis])
    if stretch is None or tuple(update) != indices.shape:
        return None
    return _insert(imp, node, [stretch if d == axis else (0, 1) for d in range(len(shape))])


def _replaces(node: Node) -> bool:
    return node.get("reduction", "none") == "none"


def _stretch(indices: NDArray[np.int64], axis: int, extent: int) -> Stretch | None:
    """Where indices that depend on their place along `axis` alone, and rise evenly, start
    and by what they rise; None if they do not."""
    import numpy as np

    row = np.moveaxis(indices, axis, 0).reshape(indices.shape[axis], -1)
    if (row != row[:, :1]).any():
        return None
    places = row[:, 0].astype(np.int64)
    if (places < 0).any():
        if extent == DYNAMIC:
            return None
        places = np.where(places < 0, places + extent, places)
    steps = np.diff(places)
    start, step = int(places[0]), int(steps[0]) if steps.size else 1
    inside = start >= 0 and (extent == DYNAMIC or int(places[-1]) < extent)
    return (start, step) if inside and step > 0 and (steps == step).all() else None


def _insert(imp: Importer, node: Node, stretches: list[Stretch]) -> Results:
    names = (node.input(0), node.input(2))
    if len({element_type(imp.type_of(name)) for name in names}) != 1:
        return None
    starts, steps = (list(values) for values in zip(*stretches, strict=True))
    operands = [imp.value(name) for name in names]
    return [imp.build(nn.InsertOp, *operands, output=node.output(0), starts=starts, steps=steps)]
