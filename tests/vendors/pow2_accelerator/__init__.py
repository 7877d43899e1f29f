"""An accelerator that rescales by shifts only.

Scales are powers of two, zero points 0 or -128, codes of a tensor have one scale. Products are
summed in i32 and leave the multipliers as sums: what brings them back to i8 is a shift. A target
states that as types; everything else follows.
"""

from qdialect.algebra.rounding import Rounding
from qdialect.ir.behaviors import Comparison, Computation, Contraction, Movement, OrderPreserving
from qdialect.ir.ops.registry import names_of
from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel

_CODES = (Kernel(("i8",), ("i8",)),)
_SUMS = (Kernel(("i8", "i8<-127:127> zero=0", "i32"), ("i32",)),)
_WITHOUT_KERNEL = ("nn.batch_norm", "nn.div", "nn.im2col", "nn.lrn", "nn.softmax")
_ON_CODES = [
    name
    for name in names_of(Movement, OrderPreserving, Comparison, Computation)
    if name not in _WITHOUT_KERNEL
]

TARGET = Target(
    "pow2_accelerator",
    "an accelerator whose rescales are shifts",
    storages=frozenset({"i8 zero=0|-128 scale=2^n", "i32 zero=0 scale=2^n"}),
    activations="i8",
    per_axis=False,
    per_block=False,
    kernels={
        "nn.constant": (Kernel(),),
        "quant.rescale": (Kernel(("i8|i32",), ("i8",)),),
        **dict.fromkeys(_ON_CODES, _CODES),
        **dict.fromkeys(names_of(Contraction), _SUMS),
    },
    runs_others=False,
    roundings=(Rounding.HALF_EVEN,),
    price=1000.0,
    shift_price=1.0,
)
