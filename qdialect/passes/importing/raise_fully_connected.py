"""A product with a constant matrix and a bias as a fully connected op.

    matmul(x, w) + b  =  fully_connected(x, w transposed) + b

The rows of an `x` of more dimensions are counted through first:

    matmul(x, w) + b  =  reshape(fully_connected(reshape(x), w transposed) + b)

which takes one unknown extent in front of the last at most: a reshape back has to say all
others. Exact in the reals. The bias then goes into the op (`raise-bias`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import constant_values, qparams_of
from qdialect.behaviors.shapes import DYNAMIC, shape_of, tensor_type
from qdialect.numerics.contract import Contract
from qdialect.ops import (
    AddOp,
    FullyConnectedOp,
    MatMulOp,
    ReshapeOp,
    constant_array,
    constant_of,
    make_constant,
)
from qdialect.ops.keys import KEY, QPARAMS
from qdialect.passes.pair_contract import in_reals
from qdialect.rewrite import Refusal, Rewriter, Rule


@dataclass(frozen=True)
class _Product:
    product: Operation
    add: Operation
    bias: SSAValue


class MatMulToFullyConnected(Rule[_Product]):
    """matmul(x, w) + b = fully_connected(x, w transposed) + b; see the module."""

    name = "matmul-to-fully-connected"

    def roots(self) -> Iterable[str]:
        return (MatMulOp.name,)

    def match(self, op: Operation) -> _Product | None:
        use = op.results[0].first_use
        if use is None or not op.results[0].has_one_use():
            return None
        add = use.operation
        return _Product(op, add, add.operands[1 - use.index]) if isinstance(add, AddOp) else None

    def check(self, match: _Product) -> Contract | Refusal:
        lhs, rhs = match.product.operands
        result = match.product.results[0]
        if any(qparams_of(v) for v in (lhs, rhs, result)):
            return Refusal("quantized", "only float products have their weight transposed")
        if len(shape_of(lhs)) < 2 or len(shape_of(rhs)) != 2:
            return Refusal("rank", "a fully connected op takes rows and a matrix")
        bias = shape_of(match.bias)
        if prod(bias) != shape_of(rhs)[1] or bias[-1:] != shape_of(rhs)[1:]:
            return Refusal("shape", "what is added is not one number per output channel")
        if any(constant_values(v, self.session) is None for v in (rhs, match.bias)):
            return Refusal("weight", "the weight or the bias is no constant")
        if len(shape_of(lhs)) > 2:
            if shape_of(match.add.results[0]) != shape_of(result):
                return Refusal("shape", "the sum has another shape than the product")
            if shape_of(lhs)[:-1].count(DYNAMIC) > 1 or 0 in shape_of(lhs):
                return Refusal("dynamic-shape", "the rows cannot be counted through and back")
        return in_reals(match.add)

    def rewrite(self, match: _Product, rewriter: Rewriter) -> None:
        product, lhs = match.product, match.product.operands[0]
        constant = constant_of(product.operands[1])
        assert constant is not None
        array = constant_array(constant, self.session.blobs).T
        element = tensor_type(product.operands[1]).element_type
        weight = make_constant(array.copy(), element, self.session.blobs)
        rewriter.insert(weight, product, keep=constant)
        rows = lhs
        if len(shape_of(lhs)) > 2:
            shaped = ReshapeOp(lhs, (-1, shape_of(lhs)[-1]))
            rewriter.insert(shaped, product)
            rows = shaped.results[0]
        new = FullyConnectedOp(rows, weight)
        if (held := product.attributes.get(QPARAMS)) is not None:
            new.attributes[QPARAMS] = held
        rewriter.insert(new, product, keep=product)
        if rows is lhs:
            rewriter.replace(product, new.results)
        else:
            self._shape_back(match, new, rewriter)

    def _shape_back(self, match: _Product, new: Operation, rewriter: Rewriter) -> None:
        """The bias is added to the rows; the sum keeps its key, and then has its shape."""
        add, bias = match.add, match.bias
        if len(shape_of(bias)) > 1:
            constant = constant_of(bias)
            assert constant is not None
            array = constant_array(constant, self.session.blobs).reshape(-1)
            vector = make_constant(array, tensor_type(bias).element_type, self.session.blobs)
            rewriter.insert(vector, add, keep=constant)
            bias = vector.result
        total = AddOp(new, bias)
        for name in (KEY, QPARAMS):
            if (held := add.attributes.pop(name, None)) is not None:
                total.attributes[name] = held
        total.location = add.location
        rewriter.insert(total, add)
        shape = [-1 if extent == DYNAMIC else extent for extent in shape_of(add.results[0])]
        back = ReshapeOp(total, shape)
        rewriter.insert(back, add)
        rewriter.replace(add, back.results)
