"""Which float products ONNX Runtime makes integer kernels of, where casts stand around them.

With its optimizations on, the runtime puts a product between casts into one kernel.  Where it
does not, it dequantizes a constant weight each time it runs: it folds constants when it loads a
model, but no DequantizeLinear.  Found by probing 1.32 (`tests/targets/test_onnxruntime_casts.py`
compares this with the runtime that is installed):

| product of dequantized codes | its result | the kernel |
|---|---|---|
| convolution, matrix product, Gemm | quantized | QLinearConv, QLinearMatMul, QGemm |
| matrix product | float | MatMulIntegerToFloat |
| matrix product | float, plus a vector that makes the two a Gemm | none |
| Gemm without a bias, or with one of i32; product and such a vector | float | QGemm |
| any other | float | none |

A matrix product of floats with a weight of bytes would be a MatMulNBits, which rounds the floats to
bytes too, unless a session option says otherwise: its result is 0.5 % off.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir import ops as nn
from qdialect.ir.ops import constant_of, shape_of
from qdialect.ir.ops.ports import bias_matches
from qdialect.ir.quant import DCastOp, QCastOp, quant_element

PRODUCTS = (
    *nn.CONVOLUTIONS,
    *nn.TRANSPOSED,
    nn.MatMulOp,
    nn.FullyConnectedOp,
)
"""Products that have a weight."""
_WEIGHTS = {"u8": ("u8", "i8"), "i8": ("i8",)}
"""Storages of weights by that of what varies."""


def runs_on_codes(op: Operation) -> bool:
    """Whether the runtime makes an integer kernel of a float product and the casts around it."""
    if not isinstance(op, PRODUCTS) or isinstance(op, nn.TRANSPOSED) or not _takes_bytes(op):
        return False
    if is_quantized(op.results[0]):
        return True
    if isinstance(op, nn.MatMulOp):
        added = _added_vector(op)
        if added is None or is_quantized(added.results[0]):
            return True
        return any(_is_summed(op, value) for value in added.operands)
    biases = op.operands[2:]
    return isinstance(op, nn.FullyConnectedOp) and all(_is_summed(op, v) for v in biases)


def takes_bias_alone(op: Operation) -> bool:
    """Whether the runtime would make an integer kernel of a product if nothing looked like the
    bias of a Gemm."""
    if not isinstance(op, nn.MatMulOp | nn.FullyConnectedOp):
        return False
    return _takes_bytes(op) and not runs_on_codes(op)


def _takes_bytes(op: Operation) -> bool:
    x, w = (_params(value) for value in op.operands[:2])
    if x is None or w is None or not x.is_per_tensor:
        return False
    return x.storage.spelling in _WEIGHTS and w.storage.spelling in _WEIGHTS[x.storage.spelling]


def _params(value: SSAValue) -> QParams | None:
    owner = value.owner
    element = quant_element(owner.input.type) if isinstance(owner, DCastOp) else None
    return None if element is None else element.qparams


def _is_summed(op: Operation, value: SSAValue) -> bool:
    """Whether a bias is of i32 on the scale of the sums. The runtime adds one on any scale."""
    x, w, bias = (_params(v) for v in (*op.operands[:2], value))
    if x is None or w is None or bias is None or bias.storage.spelling != "i32":
        return False
    return bias_matches(x, w, bias)


def is_quantized(value: SSAValue) -> bool:
    """Whether a float is only quantized, once, perhaps after a clamp that the codes imply."""
    uses = list(value.uses)
    user = uses[0].operation if len(uses) == 1 else None
    if isinstance(user, nn.ReluOp | nn.ClipOp):
        below = list(user.results[0].uses)
        quantize = below[0].operation if len(below) == 1 else None
        element = quant_element(quantize.results[0].type) if isinstance(quantize, QCastOp) else None
        if element is None or not element.qparams.is_per_tensor:
            return False
        return element.qparams.zero_point == element.qparams.storage.min
    return isinstance(user, QCastOp)


def _added_vector(op: nn.MatMulOp) -> nn.AddOp | None:
    """The addition of a constant vector that the runtime makes one Gemm of with a matrix
    product."""
    uses = list(op.result.uses)
    user = uses[0].operation if len(uses) == 1 else None
    if not isinstance(user, nn.AddOp) or len(shape_of(op.operands[1])) != 2:
        return None
    other = user.operands[1 - uses[0].index]
    if constant_of(other) is None and _params(other) is None:
        return None
    columns, shape = shape_of(op.result)[-1], shape_of(other)
    matrix = len(shape_of(op.result)) == 2
    return user if shape == (columns,) or (matrix and shape == (1, columns)) else None
