"""An accelerator without floats, as many are: i8 codes, i32 accumulators, i8 weights with
a scale per channel.

Floats exist outside only, so the interface is codes. A rescale by a power of two is a
shift; any other takes a multiplication too. What has no kernel of its own (softmax,
division, batch norm) is left between casts, for another processor or for a lowering.
"""

from __future__ import annotations

from qdialect.algebra.rounding import Rounding
from qdialect.ir.behaviors import (
    Comparison,
    Computation,
    Contraction,
    Lookup,
    Movement,
    OrderPreserving,
)
from qdialect.ir.ops.registry import names_of
from qdialect.targets.base import Interface, Target
from qdialect.targets.kernels import Kernel

_CONTRACTION = (Kernel(("i8", "i8 per-axis", "i32 per-axis"), ("i8",)),)
_CODES = (Kernel(("i8",), ("i8",)),)

_ON_CODES = (Movement, OrderPreserving, Comparison, Computation, Lookup)
_WITHOUT_KERNEL = (
    *("nn.batch_norm", "nn.div", "nn.im2col", "nn.lrn", "nn.softmax"),
    *("nn.avg_pool3d", "nn.global_avg_pool3d", "nn.max_pool3d"),
)

TARGET = Target(
    "integer",
    "a full-integer accelerator: i8, weights per channel, codes at the interface",
    extensions={"start": ("reencode-storage{activations=i8 weights=i8}",)},
    storages=frozenset({"i8", "i32"}),
    activations="i8",
    symmetric=frozenset({"i32"}),
    per_block=False,
    per_axis_zero_points=False,
    floats=False,
    kernels={
        "quant.rescale": _CODES,
        "nn.constant": (Kernel(),),
        **{name: _CODES for name in names_of(*_ON_CODES) if name not in _WITHOUT_KERNEL},
        **dict.fromkeys(names_of(Contraction), _CONTRACTION),
    },
    runs_others=False,
    roundings=(Rounding.HALF_EVEN, Rounding.HALF_UP, Rounding.HALF_AWAY),
    price=2.0,
    shift_price=1.0,
    interface=Interface.INTEGER,
)
