"""ONNX Runtime on a CPU.

Integer kernels exist for the common ops; whatever lacks one is exported as
DequantizeLinear, float op, QuantizeLinear, so nothing is illegal, but a rescale
costs two kernels over the tensor.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, cast

from qdialect.behaviors.shapes import shape_of
from qdialect.dialects.quant import quant_element
from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from qdialect.dialects.nn.base import NNOp

# Measured with 1.31 on one x64 core over 73 728 elements, in units of a rescale
# (DequantizeLinear, QuantizeLinear): 0.37 ns per element.

_ON_CODES = {
    "quant.rescale": 1.0,
    "quant.scast": 0.0,
    "quant.dcast": 0.5,
    "quant.qcast": 0.5,
    "nn.table": 1.9,
    "nn.add": 0.4,
    "nn.mul": 0.8,
    "nn.sigmoid": 0.8,
    "nn.leaky_relu": 0.8,
    "nn.relu": 0.2,
    "nn.clip": 0.2,
    "nn.maximum": 0.2,
    "nn.minimum": 0.2,
    "nn.gather": 0.6,
    "nn.transpose": 3.0,
}
"""Ops that run on codes; any other one is a rescale with the float op in the middle."""

_CASTS = ("quant.rescale", "quant.scast", "quant.dcast", "quant.qcast", "nn.table")

_ON_FLOATS = {
    "nn.gather": 0.6,
    "nn.add": 0.3,
    "nn.sub": 0.3,
    "nn.mul": 0.3,
    "nn.div": 0.7,
    "nn.relu": 0.2,
    "nn.clip": 0.2,
    "nn.maximum": 0.3,
    "nn.minimum": 0.3,
    "nn.neg": 0.4,
    "nn.abs": 0.3,
    "nn.exp": 0.4,
    "nn.log": 4.2,
    "nn.sqrt": 0.6,
    "nn.reciprocal": 0.7,
    "nn.erf": 1.1,
    "nn.gelu": 1.4,
    "nn.swish": 1.5,
    "nn.softplus": 26.0,
    "nn.elu": 4.4,
    "nn.pow": 5.9,
    "nn.floor": 0.8,
    "nn.ceil": 0.8,
    "nn.round": 0.6,
    "nn.sigmoid": 0.8,  # half as much again unless it is alone between the casts
    "nn.tanh": 0.8,
    "nn.hard_sigmoid": 0.3,
    "nn.hard_swish": 0.7,
    "nn.leaky_relu": 0.5,
    "nn.prelu": 0.5,
}


_ENTRIES = "u8|i8|u16|i16|i32"


_PAYS = 64
"""Products per element from which on QLinearConv and DepthToSpace are faster than ConvTranspose
on floats: 0.5 of its time at 256 of them, 1.15 at 24."""


def _summed(op: Operation) -> float:
    weight, v = shape_of(op.operands[1]), cast("NNOp", op).values
    return weight[0] // v["groups"] * prod(weight[2:]) / prod(v["strides"])


class _OnnxRuntime(Target):
    def op_price(self, op: Operation) -> float:
        """What was measured, on codes or on floats."""
        elements = [quant_element(v.type) for v in (*op.operands, *op.results)]
        on_codes = elements[-1] is not None
        # No elementwise kernel takes parameters along a dimension: casts around the float op.
        along = not all(e is None or e.qparams.is_per_tensor for e in elements)
        has_kernel = not along or op.name in _CASTS
        if op.name in _ON_CODES and has_kernel and (on_codes or op.name not in _ON_FLOATS):
            return _ON_CODES[op.name]
        return _ON_FLOATS.get(op.name, 0.5) + on_codes

    def should_lower(self, op: Operation) -> bool:
        """There is an integer kernel for a transposed convolution in phases: it pays where
        enough is summed."""
        if op.name == "nn.conv_transpose2d":
            return _summed(op) >= _PAYS
        return super().should_lower(op)


TARGET = _OnnxRuntime(
    "onnxruntime",
    "ONNX Runtime, CPU execution provider",
    # GatherElements: indices are read from whole bytes.
    kernels={"nn.table": (Kernel(("u8|i8|u16|i16", _ENTRIES), (_ENTRIES,)),)},
    # Its fast x64 kernels take u8 activations with i8 weights; i8 activations are
    # 2 to 14 times slower, u8 weights about twice.
    extensions={
        "integers": ("lower-transposed{numerics=LEVEL}",),
        "end": (
            "merge-shuffles",
            "reencode-storage{activations=u8 weights=i8}",
            "fold-rescale",
        ),
    },
)
