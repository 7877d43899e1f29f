"""Products of floats with weights in codes: how one stands in place of a float product.

The product takes the weight as [K, N] and any leading dimensions, so `nn.fully_connected` becomes
one on a turned weight with its bias added behind it, past a reshape that only makes rows:

    %1 = nn.reshape %x : (tensor<2x8x4xf32>) -> tensor<16x4xf32>
    %2 = nn.fully_connected %1, %w, %b {nn.key = "fc"} : (...) -> tensor<16x6xf32>
    %3 = nn.reshape %2 : (tensor<16x6xf32>) -> tensor<2x8x6xf32>

becomes

    %2 = PRODUCT %x, %codes {nn.key = "fc/matmul"} : (tensor<2x8x4xf32>, ...) -> tensor<2x8x6xf32>
    %3 = nn.add %2, %b {nn.key = "fc"} : (tensor<2x8x6xf32>, tensor<6xf32>) -> tensor<2x8x6xf32>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir import ops as nn
from qdialect.ir.behaviors import Accumulator
from qdialect.ir.dialects.interface import OUTPUTS
from qdialect.ir.ops import constant_of, make_constant, shape_of
from qdialect.ir.ops.component_keys import role_keys
from qdialect.ir.ops.keys import KEY
from qdialect.ir.ops.shapes import DYNAMIC as UNKNOWN
from qdialect.ir.quant import UniformType
from qdialect.ir.weights import BlobStore
from qdialect.quantizer.values import codes_behind

if TYPE_CHECKING:
    from numpy.typing import NDArray

Make = Callable[[SSAValue, SSAValue, Attribute], Sequence[Operation]]
"""From an input, a weight in codes and a type of the result: ops of which the last is the
product."""


def replace_product(
    op: Operation,
    acc: Accumulator,
    codes: NDArray[Any],
    params: QParams,
    make: Make,
    store: BlobStore,
) -> None:
    """Put the product that `make` makes, and its bias added, in place of `op`, whose weight has
    these codes. Keys and names stay with the values they are of."""
    block = op.parent
    assert block is not None
    x, result = _beside_rows(op) or (op.operands[acc.lhs], op.results[0])
    if isinstance(op, nn.FullyConnectedOp):
        codes, params = codes.T, params.transposed()
    weight = make_constant(np.ascontiguousarray(codes), UniformType(params), store)
    old = codes_behind(op.operands[acc.rhs]) or constant_of(op.operands[acc.rhs])
    assert old is not None
    weight.attributes.update({k: old.attributes[k] for k in (KEY,) if k in old.attributes})
    new: list[Operation] = [weight, *make(x, weight.result, result.type)]
    if acc.bias is not None and acc.bias < len(op.operands):
        new[-1].attributes.update(_keyed(role_keys(op, "matmul")))
        new.append(nn.AddOp(new[-1].results[0], op.operands[acc.bias], result_types=[result.type]))
    new[-1].attributes.update({k: op.attributes[k] for k in (KEY, OUTPUTS) if k in op.attributes})
    for each in new:
        each.location = op.location
    block.insert_ops_before(new, op)
    result.replace_all_uses_with(new[-1].results[0])
    for replaced in dict.fromkeys((result.owner, op)):
        assert isinstance(replaced, Operation)
        block.erase_op(replaced)


def _beside_rows(op: Operation) -> tuple[SSAValue, SSAValue] | None:
    """The input and the result of a fully connected op between two reshapes that make rows of all
    leading dimensions and dimensions of the rows again, as they were; None where it is not."""
    flatten, users = op.operands[0].owner, {use.operation for use in op.results[0].uses}
    if not isinstance(op, nn.FullyConnectedOp) or not isinstance(flatten, nn.ReshapeOp):
        return None
    back, lead = users.pop() if len(users) == 1 else None, shape_of(flatten.input)[:-1]
    if not isinstance(back, nn.ReshapeOp) or lead.count(UNKNOWN) > 1:
        return None
    shapes = shape_of(flatten.input)[-1:], shape_of(back.result)
    expected = shape_of(op.input)[1:], (*lead, shape_of(op.result)[1])
    known = UNKNOWN not in (*expected[0], expected[1][-1])
    return (flatten.input, back.result) if known and shapes == expected else None


def _keyed(keys: Sequence[str]) -> dict[str, Attribute]:
    texts = [StringAttr(key) for key in keys]
    return {KEY: texts[0] if len(texts) == 1 else ArrayAttr(texts)} if texts else {}
