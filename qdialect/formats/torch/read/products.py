"""Products: linear, matrix products, convolutions, attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import f32

from qdialect import ops as nn
from qdialect.dialects.onnx import FLOATS
from qdialect.formats.torch.program import Node, Ref
from qdialect.formats.torch.read.builder import static
from qdialect.formats.torch.read.masks import causal_mask
from qdialect.formats.torch.read.rows import Results, pair
from qdialect.ops.shapes import DYNAMIC

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from qdialect.formats.torch.read.importer import Importer


def linear(imp: Importer, node: Node) -> Results:
    """`linear(x [..., K], weight [N, K], bias [N])`: a fully connected op of a matrix; of anything
    else a product and a sum."""
    arguments = node.arguments
    if not imp.is_float(arguments["input"]):
        return None
    x, weight = imp.value(arguments["input"]), imp.value(arguments["weight"])
    bias = None if arguments.get("bias") is None else imp.value(arguments["bias"])
    if len(imp.extents(weight)) != 2:
        return None
    if len(imp.extents(x)) == 2:
        return [imp.build(nn.FullyConnectedOp, x, weight, bias)]
    result = imp.build(nn.MatMulOp, x, imp.build(nn.TransposeOp, weight, perm=(1, 0)))
    return [result if bias is None else imp.build(nn.AddOp, result, bias)]


def matmul(imp: Importer, node: Node) -> Results:
    """`matmul`, `mm` and `bmm` of floats."""
    other = node.arguments.get("other", node.arguments.get("mat2"))
    operands = [node.arguments["self"], other]
    if not all(imp.is_float(operand) for operand in operands):
        return None
    return [imp.build(nn.MatMulOp, *(imp.value(operand) for operand in operands))]


def addmm(imp: Importer, node: Node) -> Results:
    """beta * self + alpha * (mat1 @ mat2)."""
    arguments = node.arguments
    operands = [arguments[name] for name in ("mat1", "mat2")]
    if not all(imp.is_float(operand) for operand in operands):
        return None
    result = imp.build(nn.MatMulOp, *(imp.value(operand) for operand in operands))
    bias = imp.value(arguments["self"])
    name = node.results[0]
    assert isinstance(name, str)
    if arguments.get("alpha", 1) != 1:
        result = imp.build(nn.MulOp, result, imp.scalar(arguments["alpha"], imp.element(name)))
    if arguments.get("beta", 1) != 1:
        bias = imp.build(nn.MulOp, bias, imp.scalar(arguments["beta"], imp.element(name)))
    return [imp.build(nn.AddOp, result, bias)]


def convolution(imp: Importer, node: Node) -> Results:
    """`conv1d` to `conv3d`, their `padding` overloads, and `convolution` of both directions."""
    arguments = node.arguments
    if not imp.is_float(arguments["input"]):
        return None
    weight = imp.value(arguments["weight"])
    rank = len(imp.extents(weight)) - 2
    unbatched = len(imp.extents(imp.value(arguments["input"]))) == rank + 1
    if not 1 <= rank <= 3 or unbatched:
        return None
    window: dict[str, Any] = {
        "strides": pair(arguments.get("stride"), rank, 1),
        "dilations": pair(arguments.get("dilation"), rank, 1),
        "groups": int(arguments.get("groups", 1)),
    }
    transposed = arguments.get("transposed", "transpose" in node.op)
    kernel = static(imp.extents(weight)[2:])
    if DYNAMIC in kernel:
        return None
    window["pads"] = _pads(arguments.get("padding"), rank, kernel, window["dilations"])
    kinds: tuple[type[Any], ...] = nn.TRANSPOSED if transposed else nn.CONVOLUTIONS
    if transposed:
        window["output_padding"] = pair(arguments.get("output_padding"), rank, 0)
    bias = None if arguments.get("bias") is None else imp.value(arguments["bias"])
    return [imp.build(kinds[rank - 1], imp.value(arguments["input"]), weight, bias, **window)]


def _pads(
    padding: Any, rank: int, kernel: tuple[int, ...], dilations: tuple[int, ...]
) -> tuple[int, ...]:
    """Padding before and behind each dimension; "same" puts the odd one behind."""
    if padding == "same":
        totals = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
        before = tuple(total // 2 for total in totals)
        return (*before, *(t - b for t, b in zip(totals, before, strict=True)))
    if padding == "valid":
        return (0,) * (2 * rank)
    return pair(padding, rank, 0) * 2


def attention(imp: Importer, node: Node) -> Results:
    """`scaled_dot_product_attention` of four dimensions, with a mask or a causal one."""
    import numpy as np

    arguments = node.arguments
    operands = [arguments[name] for name in ("query", "key", "value")]
    if not all(imp.is_float(operand) for operand in operands) or arguments.get("enable_gqa"):
        return None
    if arguments.get("dropout_p"):
        raise imp.unsupported("drops values at random: export the model after model.eval()")
    query, key, value = (imp.value(operand) for operand in operands)
    shape = imp.extents(query)
    if len(shape) != 4 or shape[3].number is None:
        return None
    scale = arguments.get("scale")
    element = imp.kind(operands[0])
    assert element is not None
    mask: SSAValue | None = None
    given = arguments.get("attn_mask")
    if isinstance(given, Ref):
        mask = imp.value(given)
        if imp.kind(given) not in FLOATS:
            low, zero = imp.scalar(-np.inf, element), imp.scalar(0.0, element)
            mask = imp.build(nn.SelectOp, mask, zero, low)
    elif arguments.get("is_causal"):
        rows, columns = shape[2].number, imp.extents(key)[2].number
        if rows is None or columns is None:
            mask = causal_mask(imp, shape[2], imp.extents(key)[2], element)
        else:
            above = np.triu(np.full((rows, columns), -np.inf, np.float32), 1)
            mask = imp.cast(imp.constant(above, f32), element)
    scale = shape[3].number ** -0.5 if scale is None else float(scale)
    return [imp.build(nn.AttentionOp, query, key, value, mask, scale=scale)]
