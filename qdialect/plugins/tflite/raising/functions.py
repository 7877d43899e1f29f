"""Functions of one tensor, element by element or along a dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from qdialect.ir import ops as nn
from qdialect.ir.ops import shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.laid_out import channels_last
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tflite.raising.activations import activated
from qdialect.plugins.tflite.raising.node import Node, is_float, is_plain_integer, params_of
from qdialect.plugins.tflite.raising.raiser import (
    Handler,
    Raiser,
    common_order,
    element_in,
    settled,
)


def _function(kind: type[NNOp], **properties: Any) -> Callable[[Raiser, Node], Raised]:
    """An elementwise function, of floats or codes."""

    def raise_it(r: Raiser, node: Node) -> Raised:
        x = node.input(0)
        if is_plain_integer(x) and kind is not nn.AbsOp and kind is not nn.NegOp:
            raise Unraisable("type", "it is a function of plain integers")
        element = element_in(r, node, x.order)
        return Raised(x.order, r.computed(kind, r.value(x), element=element, **properties))

    return raise_it


def _clamp(name: str) -> Handler:
    """A clamp: of codes with other qparams than the result has, a rescale and a clamp."""

    def raise_it(r: Raiser, node: Node) -> Raised:
        from qdialect.plugins.tflite.raising.casts import by_gemmlowp

        x = node.input(0)
        if is_plain_integer(x):
            raise Unraisable("type", "nn clips real numbers")
        if params_of(x) != node.params():
            x = by_gemmlowp(r, node, x)
        return Raised(x.order, activated(r, r.value(x), name, "litert-ref"))

    return raise_it


def leaky_relu(r: Raiser, node: Node) -> Raised:
    """`LEAKY_RELU`."""
    return _function(nn.LeakyReluOp, alpha=node.real("alpha"))(r, node)


def gelu(r: Raiser, node: Node) -> Raised:
    """`GELU`, by erf or by tanh."""
    form = "tanh" if node.flag("approximate") else "none"
    return _function(nn.GeluOp, approximate=form)(r, node)


def prelu(r: Raiser, node: Node) -> Raised:
    """`PRELU`, with slopes that broadcast."""
    x, slope = node.input(0), node.input(1)
    order = common_order([x, slope])
    values = [r.value(r.with_rank(v, len(order)), order) for v in (x, slope)]
    return Raised(order, r.computed(nn.PReluOp, *values, element=element_in(r, node, order)))


def square(r: Raiser, node: Node) -> Raised:
    """`SQUARE`."""
    x = node.input(0)
    value = r.value(x)
    return Raised(x.order, r.computed(nn.MulOp, value, value, element=element_in(r, node, x.order)))


def reciprocal_root(r: Raiser, node: Node) -> Raised:
    """`RSQRT`: of floats in two ops."""
    x = node.input(0)
    if not is_float(x):
        return _function(nn.PowOp, exponent=-0.5)(r, node)
    return Raised(x.order, r.op(nn.ReciprocalOp, r.op(nn.SqrtOp, r.value(x))))


def _of_onnx(op_type: str) -> Handler:
    def raise_it(r: Raiser, node: Node) -> Raised:
        x = node.input(0)
        if not is_float(x):
            raise Unraisable("no-counterpart", "no op of ours computes it of codes")
        value = r.value(x)
        return Raised(x.order, r.onnx(op_type, [value], (node.kind(), shape_of(value)))[0])

    return raise_it


def softmax(r: Raiser, node: Node) -> Raised:
    """`SOFTMAX` along the last dimension, of the operand times beta."""
    x = node.input(0)
    axis = x.order[-1]
    beta, value = node.real("beta", 1.0), r.value(x)
    if beta != 1.0:
        if not is_float(x):
            raise Unraisable("beta", f"its beta is {beta}")
        value = r.op(nn.MulOp, value, r.scalar(beta, x.rank))
    element = element_in(r, node, x.order)
    return Raised(x.order, r.computed(nn.SoftmaxOp, value, axis=axis, element=element))


def log_softmax(r: Raiser, node: Node) -> Raised:
    """`LOG_SOFTMAX` of floats, along the last dimension."""
    x = node.input(0)
    if not is_float(x):
        raise Unraisable("no-counterpart", "no op of ours computes it of codes")
    value = r.value(x)
    kind = (node.kind(), shape_of(value))
    return Raised(x.order, r.onnx("LogSoftmax", [value], kind, axis=x.order[-1])[0])


def l2_norm(r: Raiser, node: Node) -> Raised:
    """`L2_NORMALIZATION` along the last dimension: by the root of the sum of squares, 1e-6 at
    least."""
    x = node.input(0)
    if not is_float(x) or node.activation != "NONE":
        raise Unraisable("no-counterpart", "no op of ours computes it of codes")
    value = r.value(x)
    squares = r.op(nn.MulOp, value, value)
    total = r.op(nn.ReduceSumOp, squares, axes=[x.order[-1]], keepdims=True)
    root = r.op(nn.MaximumOp, r.op(nn.SqrtOp, total), r.scalar(1e-6, x.rank))
    return Raised(x.order, r.op(nn.DivOp, value, root))


def local_response(r: Raiser, node: Node) -> Raised:
    """`LOCAL_RESPONSE_NORMALIZATION`: the sum of squares of 2 radius + 1 channels."""
    x, order = node.input(0), channels_last(4)
    if r.kernel == "litert-ref":
        raise Unraisable("kernel", "the reference kernel leaves out the last channel")
    size = 2 * node.number("radius") + 1
    out = r.op(
        nn.LrnOp,
        r.value(x, order),
        size=size,
        alpha=node.real("alpha") * size,
        beta=node.real("beta"),
        bias=node.real("bias"),
    )
    return Raised(order, out)


def identity(r: Raiser, node: Node) -> Raised:
    """An op that gives what it takes."""
    return settled(r, node, node.input(0))


HANDLERS: Mapping[str, Handler] = {
    "RELU": _clamp("RELU"),
    "RELU6": _clamp("RELU6"),
    "RELU_N1_TO_1": _clamp("RELU_N1_TO_1"),
    "RELU_0_TO_1": _clamp("RELU_0_TO_1"),
    "LEAKY_RELU": leaky_relu,
    "PRELU": prelu,
    "ELU": _function(nn.EluOp, alpha=1.0),
    "GELU": gelu,
    "HARD_SWISH": _function(nn.HardSwishOp),
    "LOGISTIC": _function(nn.SigmoidOp),
    "TANH": _function(nn.TanhOp),
    "EXP": _function(nn.ExpOp),
    "LOG": _function(nn.LogOp),
    "SQRT": _function(nn.SqrtOp),
    "RSQRT": reciprocal_root,
    "SQUARE": square,
    "ABS": _function(nn.AbsOp),
    "NEG": _function(nn.NegOp),
    "FLOOR": _function(nn.FloorOp),
    "CEIL": _function(nn.CeilOp),
    "ROUND": _function(nn.RoundOp),
    "SIN": _of_onnx("Sin"),
    "COS": _of_onnx("Cos"),
    "SIGN": _of_onnx("Sign"),
    "SOFTMAX": softmax,
    "LOG_SOFTMAX": log_softmax,
    "L2_NORMALIZATION": l2_norm,
    "LOCAL_RESPONSE_NORMALIZATION": local_response,
}
