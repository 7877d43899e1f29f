"""ONNX Runtime on x86 before VNNI: products of u8 and i8 are added in pairs that saturate.

AVX2 and AVX-512 without VNNI multiply u8 by i8 with VPMADDUBSW, whose sums of two products are
i16: 2 * 255 * 127 does not fit, and saturates. Products of u8 by u8 take another way and do not.

    255 * 127 + 255 * 127 = 64770  ->  32767
"""

from __future__ import annotations

from dataclasses import replace

from qdialect.algebra.sums import PAIRS
from qdialect.plugins.onnx.target import TARGET as ONNXRUNTIME
from qdialect.targets.kernels import ANY, Kernel
from qdialect.targets.price_table import shipped_prices

_CONTRACTION = (
    Kernel(("u8|i8", "i8 per-axis", ANY), (ANY,), str(PAIRS)),
    Kernel(("u8|i8", "u8 per-axis", ANY), (ANY,)),
    Kernel(("u16|i16|i32", ANY), (ANY,)),
)

TARGET = replace(
    ONNXRUNTIME,
    name="x86-without-vnni",
    summary="ONNX Runtime on x86 with AVX2 or AVX-512, without VNNI",
    measured=shipped_prices("onnxruntime").without_dot_products(),
    kernels={
        **ONNXRUNTIME.kernels,
        **dict.fromkeys(
            ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.fully_connected", "nn.matmul"),
            _CONTRACTION,
        ),
        "nn.dynamic_matmul": (
            Kernel((ANY, "i8 per-axis"), sums=str(PAIRS)),
            Kernel((ANY, "u8 per-axis")),
        ),
    },
)
