"""Ops whose shapes or bounds a model computes, where it can be said what those are.

    Reshape(x, [batch, sequence, 4, 16])  of x batch x sequence x 64   ->  nn.reshape [0, 0, 4, 16]
    Expand(x, [batch, 2, 3, 8])           of x batch x 2 x 1 x 8       ->  nn.expand [1, 1, 3, 1]
    Slice(x, [0], [sequence], [1])        of x batch x sequence        ->  x

Each holds on every run, where an extent is 0 too: a -1 is written only where the elements that
are left tell it.  (A computed 0, which `Reshape` takes for a copy unless `allowzero`, is the extent
it was computed as: some tensors without elements then have another shape.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops.base import ranked, tensor_type
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.plugins.common.extents import Extent, product, reshape_entries
from qdialect.plugins.onnx.read.inferred_extents import target_extents
from qdialect.plugins.onnx.read.node import Node

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer

_TO_THE_END = 2**63 - 1


def reshape(imp: Importer, node: Node) -> list[SSAValue] | None:
    """`Reshape` of something that may be moved, to a shape the model computes: an `nn.reshape`
    or `nn.flatten` where that is the same on every run, else an `nn.reshape_to`."""
    source, requested = imp.symbols.extents(node.input(0)), imp.symbols.numbers(node.input(1))
    if source is None:
        return None
    allowzero = bool(node.get("allowzero", 0))
    x = imp.value(node.input(0))
    if requested is not None and requested.ndim == 1:
        target = list(requested)
        entries = reshape_entries(source, target, allowzero)
        if entries is not None:
            return [imp.shaped(nn.ReshapeOp(x, entries), node.output(0))]
        turned = _split_first(imp, node, target)
        if turned is not None:
            return turned
        for axis in range(len(source) + 1):
            if target == [product(source[:axis]), product(source[axis:])]:
                return [imp.build(nn.FlattenOp, x, output=node.output(0), axis=axis)]
    return _reshape_to(imp, node, x, allowzero)


def _split_first(imp: Importer, node: Node, target: Sequence[Extent]) -> list[SSAValue] | None:
    """Reshape, transpose, reshape as exporters of attention write, where the last splits dimensions
    in a way nobody can tell from its operand: split them first.

        [t, b, 32] -> [t, 4*b, 8] -> [4*b, t, 8] -> [b, 4, t, 8]  is  [t, b, 4, 8] -> [b, 4, t, 8]
    """
    swap = imp.value(node.input(0)).owner
    merge = swap.input.owner if isinstance(swap, nn.TransposeOp) else None
    if not isinstance(swap, nn.TransposeOp) or not isinstance(merge, nn.ReshapeOp | nn.ReshapeToOp):
        return None
    x = merge.input
    perm: tuple[int, ...] = swap.values["perm"]
    whole, merged = imp.symbols.of(x), imp.symbols.of(merge.result)
    parts = _parts([merged[p] for p in perm], target)
    if parts is None:
        return None
    placed = [parts[perm.index(d)] for d in range(len(perm))]
    split = [extent for part in placed for extent in part]
    if split != list(whole):
        entries = reshape_entries(whole, split, True)
        if entries is None:
            return None
        x = imp.emit(nn.ReshapeOp(x, entries)).results[0]
    starts = [sum(map(len, placed[:d])) for d in range(len(placed))]
    moved = [starts[p] + k for p in perm for k in range(len(placed[p]))]
    imp.replaced.extend((swap, merge))
    return [imp.build(nn.TransposeOp, x, output=node.output(0), perm=moved)]


def _parts(extents: Sequence[Extent], target: Sequence[Extent]) -> list[list[Extent]] | None:
    """Runs of `target` whose products are `extents`; None where there are none."""
    parts: list[list[Extent]] = []
    rest = list(target)
    for extent in extents:
        part: list[Extent] = []
        while rest and (not part or product(tuple(part)) != extent):
            part.append(rest.pop(0))
        if product(tuple(part)) != extent:
            return None
        parts.append(part)
    return None if rest else parts


def _reshape_to(imp: Importer, node: Node, x: SSAValue, allowzero: bool) -> list[SSAValue] | None:
    shape = imp.type_of(node.input(1))
    if not isinstance(shape, TensorType) or shape.get_num_dims() != 1 or shape.get_shape()[0] < 0:
        return None
    requested, source = imp.symbols.numbers(node.input(1)), imp.symbols.extents(node.input(0))
    extents: Sequence[Extent | None] = [None] * shape.get_shape()[0]
    if requested is not None and source is not None:
        extents = target_extents(source, list(requested), allowzero)
    known = [DYNAMIC if e is None or e.number is None else e.number for e in extents]
    op = nn.ReshapeToOp(
        x,
        imp.value(node.input(1)),
        result_types=[ranked(tensor_type(x).element_type, known)],
        allowzero=allowzero,
    )
    result = imp.shaped(op, node.output(0))
    imp.symbols.tell(result, extents)
    return [result]


def expand(imp: Importer, node: Node) -> list[SSAValue] | None:
    """`Expand` to extents that are the operand's own, or numbers."""
    source, requested = imp.symbols.extents(node.input(0)), imp.symbols.numbers(node.input(1))
    if source is None or requested is None or requested.ndim != 1:
        return None
    entries: list[int] = []
    for place, extent in enumerate(requested, -len(requested)):
        own = source[place] if -place <= len(source) else None
        if extent.number is not None and extent.number > 0:
            entries.append(extent.number)
        elif own == extent:
            entries.append(1)
        else:
            return None
    x = imp.value(node.input(0))
    if set(entries) <= {1} and len(entries) <= len(source):
        return [x]
    return [imp.build(nn.ExpandOp, x, output=node.output(0), shape=entries)]


def bounds(
    imp: Importer, node: Node, name: str, axes: Sequence[int] | None
) -> tuple[int, ...] | None:
    """Starts or ends of a `Slice` as numbers: the end of a dimension, or its last element."""
    known = imp.static_ints(name)
    source, requested = imp.symbols.extents(node.input(0)), imp.symbols.numbers(name)
    if known is not None or source is None or requested is None:
        return known
    places = range(requested.size) if axes is None else axes
    if len(places) != requested.size or any(not -len(source) <= a < len(source) for a in places):
        return None
    found: list[int] = []
    for axis, bound in zip(places, requested.reshape(-1), strict=True):
        beyond = bound - source[axis]
        if bound.number is not None:
            found.append(bound.number)
        elif beyond.number == -1:
            found.append(-1)
        elif beyond.least is not None and beyond.least >= 0:
            found.append(_TO_THE_END)
        else:
            return None
    return tuple(found)
