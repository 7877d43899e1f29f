"""Forms of ONNX nodes that the importer keeps: casts, comparisons and logic, mostly of masks.

    %m = onnx.node "Cast" (%b) attributes {to = 1 : i64} : (tensor<4xi1>) -> tensor<4xf32>

A node is lowered if the shapes and the plain types of its values are known; no other node is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat, DenseArrayBase, IntegerType, Signedness
from xdsl.ir import Attribute, Operation

from qdialect.ir.ops import shape_of
from qdialect.plugins.common.lowering.emitter import E, Lowering, integer_type, type_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.floats.algebra import Logic, Order
from qdialect.plugins.common.lowering.floats.rows import transposed
from qdialect.plugins.common.lowering.floats.writer import FloatWriter, arithmetic_element
from qdialect.plugins.common.lowering.laid_out import LaidOut
from qdialect.plugins.onnx.dialect import NodeOp

Form = Callable[[FloatWriter, NodeOp, Sequence[LaidOut]], LaidOut]


def kept_node(writer: Callable[[E], FloatWriter]) -> Lowering[E]:
    """The row of `onnx.node`: by its type, if it has only operands and one result."""

    def lower(e: E, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
        assert isinstance(op, NodeOp)
        name, domain = op.op_type.data, op.domain.data
        form = _FORMS.get(name) if domain in ("", "ai.onnx") else None
        if form is None or op.captures.data or len(op.results) != 1 or None in op.node_inputs():
            title = f"{domain}.{name}" if domain else name
            raise Unlowerable("onnx-node", f"it has no form of the ONNX node {title}")
        for value in (*op.operands, *op.results):
            _check(type_of(value.type, "a value of it").element_type)
        w = writer(e)
        out = form(w, op, operands)
        return LaidOut(out.shape, out.order, None, e.value_of(out, out.order))

    return lower


def _check(element: Attribute) -> None:
    if isinstance(element, AnyFloat):
        return
    integer = integer_type(element)
    if integer is None or integer.signedness.data is not Signedness.SIGNLESS:
        raise Unlowerable("type", f"it has values of {element}")


def _result(op: NodeOp) -> tuple[int, ...]:
    return shape_of(op.results[0])


def _element(value: Any) -> Attribute:
    return type_of(value.type, "a value of it").element_type


def _shaped(w: FloatWriter, op: NodeOp, operands: Sequence[LaidOut]) -> LaidOut:
    return w.shaped(operands[0], _result(op))


def _expanded(w: FloatWriter, op: NodeOp, operands: Sequence[LaidOut]) -> LaidOut:
    shape = _result(op)
    x = w.shaped(
        operands[0], (*(1 for _ in range(len(shape) - operands[0].rank)), *operands[0].shape)
    )
    for dimension, (n, m) in enumerate(zip(x.shape, shape, strict=True)):
        if n != m:
            x = w.taken(x, dimension, [0] * m)
    return x


def _transposed(w: FloatWriter, op: NodeOp, operands: Sequence[LaidOut]) -> LaidOut:
    stated = op.node_attributes.data.get("perm")
    rank = operands[0].rank
    if stated is None:
        return transposed(operands[0], range(rank)[::-1])
    if not isinstance(stated, DenseArrayBase):
        raise Unlowerable("onnx-node", "its permutation is not known")
    return transposed(operands[0], [int(d) for d in cast("Any", stated).get_values()])


def _cast(w: FloatWriter, op: NodeOp, operands: Sequence[LaidOut]) -> LaidOut:
    (x,) = operands
    source, target = _element(op.operands[0]), w.stored(_element(op.results[0]))
    truth = source == _TRUTH
    to_truth = target == w.stored(_TRUTH) and _element(op.results[0]) == _TRUTH
    return w.computed(
        [x], x.shape, target, lambda a, v: a.cast(v[0], target, of_truth=truth, to_truth=to_truth)
    )


_TRUTH = IntegerType(1)


def _compared(order: Order) -> Form:
    def form(w: FloatWriter, op: NodeOp, operands: Sequence[LaidOut]) -> LaidOut:
        arithmetic_element(operands[0])
        truth = w.stored(_TRUTH)
        return w.computed(
            operands,
            _result(op),
            truth,
            lambda a, v: a.stored_truth(a.compare(order, v[0], v[1]), truth),
        )

    return form


def _logical(name: Logic) -> Form:
    def form(w: FloatWriter, op: NodeOp, operands: Sequence[LaidOut]) -> LaidOut:
        truth = w.stored(_TRUTH)
        if any(_element(value) != _TRUTH for value in op.operands):
            raise Unlowerable("type", "it combines what are no truth values")
        return w.computed(
            operands,
            _result(op),
            truth,
            lambda a, v: a.stored_truth(a.logical(name, [a.truth_of(bit) for bit in v]), truth),
        )

    return form


def _clip(w: FloatWriter, op: NodeOp, operands: Sequence[LaidOut]) -> LaidOut:
    return w.computed(
        operands,
        _result(op),
        arithmetic_element(operands[0]),
        lambda a, v: a.pair("minimum", a.pair("maximum", v[0], v[1]), v[2]),
    )


_FORMS: Mapping[str, Form] = {
    "And": _logical("and"),
    "Cast": _cast,
    "Clip": _clip,
    "Equal": _compared("eq"),
    "Expand": _expanded,
    "Flatten": _shaped,
    "Greater": _compared("gt"),
    "GreaterOrEqual": _compared("ge"),
    "Identity": _shaped,
    "Less": _compared("lt"),
    "LessOrEqual": _compared("le"),
    "Not": _logical("not"),
    "Or": _logical("or"),
    "Reshape": _shaped,
    "Squeeze": _shaped,
    "Transpose": _transposed,
    "Unsqueeze": _shaped,
    "Xor": _logical("xor"),
}
