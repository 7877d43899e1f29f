"""Scales and zero points of a program as qparams.

PyTorch computes in float32 with scales that Python may hold as doubles; qparams have the float32
numbers.  Parameters that no type has (a zero point outside of the bounds, one that is no
integer) are no qparams: the op is then written as float arithmetic, or kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams, Storage
from qdialect.ir import ops as nn
from qdialect.ir.ops import constant_array, constant_of
from qdialect.ir.ops.constants import element_name
from qdialect.ir.quant import element_type
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.plugins.torch.program import ELEMENT_TYPES, Ref

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.torch.read.importer import Importer

SPELLINGS = {2: "i8", 1: "u8", 3: "i16", 28: "u16", 4: "i32"}
"""Storage types by the codes of element types that quantized values may have."""

_DTYPES = {"f32": "f4", "f64": "f8", "i8": "i1", "ui8": "u1", "i32": "i4", "i64": "i8"}


class Grid(NamedTuple):
    """Parameters that are known: numbers of the scales in float64, zero points as the program
    has them (None: zeros), and what they are along.

    `axis` is a dimension; `blocks` are the extents of one block of a tensor of shape `shape`.
    Neither: per tensor.
    """

    scales: NDArray[Any]
    zeros: NDArray[Any] | None
    axis: int | None = None
    blocks: Sequence[int] = ()
    shape: Sequence[int] = ()


def known(imp: Importer, argument: Any) -> NDArray[Any] | None:
    """A tensor whose numbers are known now: a weight, a constant, or what is converted or
    reshaped of those; None for anything else."""
    import numpy as np

    if not isinstance(argument, Ref):
        return imp.array(argument)
    weight = imp.weights.get(argument.name)
    if weight is not None:
        if ELEMENT_TYPES[weight.code] == "bf16":
            return (weight.array.astype(np.uint32) << 16).view(np.float32)
        return weight.array
    value = imp.values.get(argument.name)
    return None if value is None else _evaluated(imp, value)


def _evaluated(imp: Importer, value: SSAValue) -> NDArray[Any] | None:
    constant = constant_of(value)
    if constant is not None:
        return constant_array(constant, imp.ctx.blobs)
    op = value.owner
    if not isinstance(op, Operation) or not op.operands:
        return None
    array = _evaluated(imp, op.operands[0])
    if array is None:
        return None
    shape = [extent.number for extent in imp.extents(value)]
    if isinstance(op, nn.ReshapeOp | nn.FlattenOp) and None not in shape:
        return array.reshape([int(n or 0) for n in shape])
    if isinstance(op, nn.TransposeOp):
        return array.transpose(op.values["perm"])
    if isinstance(op, NodeOp) and op.op_type.data == "Cast" and array.dtype.kind in "fiu":
        kind = _DTYPES.get(element_name(element_type(value.type)))
        return None if kind is None else array.astype(kind)
    return None


def storage(spelling: str, low: int, high: int) -> Storage | None:
    """The storage of codes from `low` to `high`; None where the type does not have them."""
    full = Storage.of(spelling)
    inside = full.min <= low <= high <= full.max
    return Storage.of(spelling, low, high) if inside else None


def smallest_storage(low: int, high: int) -> Storage | None:
    """The first of 8, 16 and 32 bits that has these codes; unsigned where none is negative."""
    sign = "i" if low < 0 else "u"
    found = (
        storage(f"{sign}{width}", low, high) for width in (8, 16, 32) if (sign, width) != ("u", 32)
    )
    return next((entry for entry in found if entry is not None), None)


def qparams(stored: Storage, grid: Grid) -> QParams | None:
    """Qparams of float32 with the float32 scales; None for what no type has."""
    import numpy as np

    scales = grid.scales.astype(np.float32)
    if not np.isfinite(scales).all() or not (scales >= np.finfo(np.float32).tiny).all():
        return None
    zeros = np.zeros(scales.shape) if grid.zeros is None else grid.zeros
    if zeros.size != scales.size or not _are_codes(zeros, stored):
        return None
    steps, points = scales.reshape(-1).tolist(), [int(z) for z in zeros.reshape(-1)]
    if grid.axis is not None:
        return QParams.per_axis(stored, grid.axis, steps, points)
    if grid.blocks:
        return _of_blocks(stored, grid, steps, points)
    if len(steps) != 1:
        return None
    return QParams.per_tensor(stored, steps[0], points[0])


def _are_codes(zeros: NDArray[Any], stored: Storage) -> bool:
    import numpy as np

    whole = zeros.dtype.kind in "iu" or bool(
        (np.isfinite(zeros) & (zeros == np.round(zeros))).all()
    )
    return whole and bool(((zeros >= stored.min) & (zeros <= stored.max)).all())


def _of_blocks(
    stored: Storage, grid: Grid, steps: list[float], points: list[int]
) -> QParams | None:
    """Parameters of blocks: per tensor or per axis where the blocks are."""
    pairs = list(zip(grid.shape, grid.blocks, strict=True))
    if any(block <= 0 or extent % block for extent, block in pairs):
        return None
    counts = [extent // block for extent, block in pairs]
    total = 1
    for count in counts:
        total *= count
    if total != len(steps):
        return None
    cut = [d for d, (extent, block) in enumerate(pairs) if block != extent]
    if not cut:
        return QParams.per_tensor(stored, steps[0], points[0])
    if len(cut) == 1 and grid.blocks[cut[0]] == 1:
        return QParams.per_axis(stored, cut[0], steps, points)
    blocks = [(d, grid.blocks[d]) for d in cut]
    return QParams.blockwise(stored, blocks, counts, steps, points)
