"""An accelerator of i8 codes on one scale per tensor, whose sums of products saturate in 24 bits.

Weights and values are i8, functions take and give codes. `UNRESTRICTED` is the same with sums in
i32, to compare with.
"""

from dataclasses import replace

from qdialect.ir.behaviors import Comparison, Computation, Contraction, Movement, OrderPreserving
from qdialect.ir.ops.registry import names_of
from qdialect.targets.base import Interface, Target
from qdialect.targets.kernels import Kernel

_CODES = (Kernel(("i8",), ("i8",)),)
_WITHOUT_KERNEL = ("nn.batch_norm", "nn.div", "nn.im2col", "nn.lrn", "nn.softmax")
_ON_CODES = [
    name
    for name in names_of(Movement, OrderPreserving, Comparison, Computation)
    if name not in _WITHOUT_KERNEL
]


def _products(sums: str) -> dict[str, tuple[Kernel, ...]]:
    row = Kernel(("i8", "i8 zero=0", "i32"), ("i8",), sums)
    return dict.fromkeys(names_of(Contraction), (row,))


TARGET = Target(
    "npu24",
    "an accelerator with saturating sums of 24 bits",
    storages=frozenset({"i8", "i32 zero=0"}),
    activations="i8",
    per_axis=False,
    per_block=False,
    floats=False,
    kernels={
        "nn.constant": (Kernel(),),
        "quant.rescale": _CODES,
        **dict.fromkeys(_ON_CODES, _CODES),
        **_products("i24 saturating"),
    },
    runs_others=False,
    interface=Interface.INTEGER,
)
UNRESTRICTED = replace(TARGET, name="npu32", kernels={**TARGET.kernels, **_products("i32")})
