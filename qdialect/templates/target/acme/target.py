"""What the accelerator runs, on which qparams, and what rescales cost on it."""

from __future__ import annotations

from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel

#: a row of types that go together: input, weight and bias, then the result
CONVOLUTION = Kernel(
    ("i8", "i8 per-axis(0) zero=0 scale=2^n", "i32 per-axis(0)"),
    ("i8",),
    limits={"window": "1..3", "strides": "1..2"},
)

TARGET = Target(
    "acme",
    "8-bit convolutions with a fused relu; rescales are shifts",
    # The domains: a scale is a power of two, and 0 is in the middle of the codes or at their end.
    storages=frozenset({"i8 zero=0|-128 scale=2^n", "i32 zero=0"}),
    activations="i8",
    kernels={
        "acme.conv_relu": (CONVOLUTION,),
        "nn.conv2d": (CONVOLUTION,),
        "nn.relu": (Kernel(("i8",), ("i8 as=0",)),),
        "nn.max_pool2d": (Kernel(("i8",), ("i8 as=0",), limits={"window": "1..2"}),),
        "quant.rescale": (Kernel(("i8|i32",), ("i8",)),),
    },
    # What is not in the table stays float, and runs on the host.
    runs_others=False,
    keep_whole=frozenset({"acme.conv_relu"}),
    # Where the pass runs in `qopt optimize` and `qopt quantize`.
    extensions={"integers": ("acme-fuse",)},
    # Prices are for each element: a rescale by a power of two is a shift, and others are refused.
    price=4.0,
    shift_price=1.0,
)
