"""ONNX Runtime on a CPU.

Integer kernels exist for the common ops; whatever lacks one is exported as
DequantizeLinear, float op, QuantizeLinear, so nothing is illegal, but a rescale
costs two kernels over the tensor.
"""

from __future__ import annotations

from qdialect.targets.base import Target

TARGET = Target(
    "onnxruntime",
    "ONNX Runtime, CPU execution provider",
    # Its fast x64 kernels take u8 activations with i8 weights; i8 activations are
    # 2 to 14 times slower, u8 weights about twice.
    extensions={
        "end": (
            "reencode-storage{activations=u8 weights=i8}",
            "fold-rescale",
        )
    },
)
