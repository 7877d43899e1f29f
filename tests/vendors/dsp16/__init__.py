"""A DSP of 16 bits: no bytes, no floats, sums of 40 bits."""

from qdialect.ir.behaviors import (
    Comparison,
    Computation,
    Contraction,
    Lookup,
    Movement,
    OrderPreserving,
)
from qdialect.ir.ops.registry import names_of
from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel

_CODES = (Kernel(("i16",), ("i16",)),)
_WITHOUT_KERNEL = ("nn.batch_norm", "nn.div", "nn.im2col", "nn.lrn", "nn.softmax")
_ON_CODES = [
    name
    for name in names_of(Movement, OrderPreserving, Comparison, Computation, Lookup)
    if name not in _WITHOUT_KERNEL
]

TARGET = Target(
    "dsp16",
    "a DSP of 16 bits, with sums of 40",
    storages=frozenset({"i16 zero=0", "i32 zero=0"}),
    activations="i16",
    per_axis=False,
    per_block=False,
    floats=False,
    kernels={
        "nn.constant": (Kernel(),),
        "quant.rescale": _CODES,
        **dict.fromkeys(_ON_CODES, _CODES),
        **dict.fromkeys(names_of(Contraction), (Kernel(("i16", "i16", "i32"), ("i16",), "i40"),)),
    },
    runs_others=False,
)
