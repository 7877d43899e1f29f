"""The accelerator: what it runs, and what rescales cost on it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation

from acme_npu.declarations import AVERAGE_POOL
from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel


class AcmeNpu(Target):
    def refuses(
        self, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
    ) -> str | None:
        if op.name == "acme.rotate" and operands[0].get_num_dims() > 4:
            return "rotates at most 4 dimensions"
        return super().refuses(op, operands, results)


TARGET = AcmeNpu(
    "acme_npu",
    "Acme NPU: fused convolutions, max pools on i8 only",
    behaviors=(AVERAGE_POOL,),
    keep_whole=frozenset({"nn.hard_swish"}),
    extensions={"integers": ("acme-fuse",)},
    kernels={"nn.max_pool2d": (Kernel(("i8",), ("i8",)),)},
    price=3.0,
    shift_price=1.0,
)
