"""Products: linear, matrix products, convolutions, attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import TensorType, f32, i1, i64
from xdsl.ir import Attribute, SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops.base import ranked
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.common.extents import Extent, broadcast
from qdialect.plugins.torch.program import Node, Ref
from qdialect.plugins.torch.read.builder import static
from qdialect.plugins.torch.read.pooling import batched, unbatched
from qdialect.plugins.torch.read.rows import Results, pair, result
from qdialect.plugins.torch.read.sizes import run_time_number

if TYPE_CHECKING:
    from qdialect.plugins.torch.read.importer import Importer


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
    """`matmul`, `mm`, `bmm`, `mv`, `dot`: of floats an `nn` op, of integers ONNX's."""
    names = ("other", "mat2", "vec", "tensor")
    other = next(node.arguments[name] for name in names if name in node.arguments)
    return [_product(imp, result(node), node.arguments["self"], other)]


def _product(imp: Importer, name: str, a: Any, b: Any) -> SSAValue:
    """A product in the type of the result."""
    element = imp.element(name)
    values = [imp.cast(imp.value(argument), element) for argument in (a, b)]
    ranks = [len(imp.extents(value)) for value in values]
    if element in FLOATS and 1 not in ranks:
        return imp.build(nn.MatMulOp, *values)
    return _by_onnx(imp, values, element)


def _by_onnx(imp: Importer, values: list[SSAValue], element: Attribute) -> SSAValue:
    """ONNX's MatMul; vectors are matrices of one row or one column."""
    one = Extent.of(1)
    left, right = (list(imp.extents(value)) for value in values)
    row, column = len(left) == 1, len(right) == 1
    left, right = [one, *left] if row else left, [*right, one] if column else right
    a, b = imp.reshape(values[0], left), imp.reshape(values[1], right)
    batch = [e or Extent.unknown() for e in broadcast([left[:-2], right[:-2]])]
    if element in FLOATS:
        y = imp.build(nn.MatMulOp, a, b)
    else:
        y = imp.function("MatMul", [a, b], element, [*batch, left[-2], right[-1]])
    return imp.reshape(
        y, [*batch, *left[-2 : len(left) - 1 - row], *right[len(right) - 1 + column :]]
    )


def addmm(imp: Importer, node: Node) -> Results:
    """`addmm`, `baddbmm`, `addmv`: beta * self + alpha * (product)."""
    arguments = node.arguments
    pairs = (("mat1", "mat2"), ("batch1", "batch2"), ("mat", "vec"))
    operands = next([arguments[n] for n in names] for names in pairs if names[0] in arguments)
    name = result(node)
    element = imp.element(name)
    if element not in FLOATS:
        return None
    product = _product(imp, name, *operands)
    if arguments.get("alpha", 1) != 1:
        product = imp.build(nn.MulOp, product, imp.scalar(arguments["alpha"], element))
    if arguments.get("beta", 1) == 0:
        return [product]
    bias = imp.value(arguments["self"])
    if arguments.get("beta", 1) != 1:
        bias = imp.build(nn.MulOp, bias, imp.scalar(arguments["beta"], element))
    return [imp.build(nn.AddOp, product, bias)]


def outer(imp: Importer, node: Node) -> Results:
    """`outer`: each element of one vector times each of another."""
    operands = [node.arguments[name] for name in ("self", "vec2")]
    if not all(imp.is_float(operand) for operand in operands):
        return None
    column, row = (imp.value(operand) for operand in operands)
    column = imp.reshape(column, [*imp.extents(column), Extent.of(1)])
    return [imp.build(nn.MulOp, column, row)]


def einsum(imp: Importer, node: Node) -> Results:
    """`einsum` as ONNX has it."""
    name = result(node)
    element = imp.element(name)
    values = [imp.cast(imp.value(t), element) for t in node.arguments["tensors"]]
    equation = str(node.arguments["equation"]).replace(" ", "")
    return [imp.function("Einsum", values, element, imp.shape(name), equation=equation)]


def convolution(imp: Importer, node: Node) -> Results:
    """`conv1d` to `conv3d`, their `padding` overloads, and `convolution` of both directions."""
    arguments = node.arguments
    if not imp.is_float(arguments["input"]):
        return None
    weight = imp.value(arguments["weight"])
    rank = len(imp.extents(weight)) - 2
    if not 1 <= rank <= 3:
        return None
    given = batched(imp, imp.value(arguments["input"]), rank)
    if given is None:
        return None
    x, added = given
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
    return [unbatched(imp, imp.build(kinds[rank - 1], x, weight, bias, **window), added)]


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
    """`scaled_dot_product_attention`, with a mask or a causal one; of groups, each key and value
    serves several queries."""
    import numpy as np

    arguments = node.arguments
    operands = [arguments[name] for name in ("query", "key", "value")]
    if not all(imp.is_float(operand) for operand in operands):
        return None
    if arguments.get("dropout_p"):
        raise imp.unsupported("drops values at random: export the model after model.eval()")
    query, key, value = (imp.value(operand) for operand in operands)
    rank = len(imp.extents(query))
    query, key, value = (_of_rank_4(imp, v) for v in (query, key, value))
    shape = imp.extents(query)
    if not 2 <= rank <= 4 or shape[3].number is None:
        return None
    if arguments.get("enable_gqa"):
        groups = shape[1].over(imp.extents(key)[1])
        if groups is None or groups.number is None:
            return None
        repeats = (1, groups.number, 1, 1)
        key, value = (imp.build(nn.RepeatOp, v, repeats=repeats) for v in (key, value))
    scale = arguments.get("scale")
    element = imp.kind(operands[0])
    assert element is not None
    mask: SSAValue | None = None
    given = arguments.get("attn_mask")
    if isinstance(given, Ref):
        mask = imp.value(given)
        mask = _of_rank_4(imp, mask) if len(imp.extents(mask)) > 2 else mask
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
    y = imp.build(nn.AttentionOp, query, key, value, mask, scale=scale)
    return [imp.reshape(y, imp.extents(y)[4 - rank :])]


def _of_rank_4(imp: Importer, x: SSAValue) -> SSAValue:
    """`x` with extents 1 in front."""
    extents = imp.extents(x)
    return imp.reshape(x, (*[Extent.of(1)] * (4 - len(extents)), *extents))


# Masks whose extents only the run tells.


def causal_mask(imp: Importer, rows: Extent, columns: Extent, element: Attribute) -> SSAValue:
    """[rows, columns]: 0 where the column is at most the row, -infinity behind."""
    zero, one = imp.scalar(0), imp.scalar(1)
    down, along = (
        imp.onnx("Range", [zero, run_time_number(imp, size), one], ranked(i64, [-1]))
        for size in (rows, columns)
    )
    imp.state(down, (rows,))
    imp.state(along, (columns,))
    down = imp.reshape(down, (rows, Extent.of(1)))
    kind: TensorType[Attribute] = ranked(i1, [-1, -1])
    below = imp.onnx("GreaterOrEqual", [down, along], kind)
    imp.state(below, (rows, columns))
    mask = imp.build(
        nn.SelectOp, below, imp.scalar(0.0, element), imp.scalar(-float("inf"), element)
    )
    imp.state(mask, (rows, columns))
    return mask
