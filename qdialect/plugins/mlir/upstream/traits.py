"""What traits demand of the types of an op together, in upstream's words.

'arith.addi' op requires the same type for all operands and results
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import TensorType, UnrankedTensorType, VectorType
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from qdialect.plugins.mlir.upstream.shapes import (
    broadcast,
    element_or_self,
    fit,
    have_fitting_shapes,
    layout_of,
    listed,
    shape_of,
)

_Kinds = Sequence[Attribute]


def inferred_as(kind: Attribute) -> object:
    """What of an element type StableHLO's ops infer: not scales and zero points."""
    element = element_or_self(kind)
    if not (layout := layout_of(element)):
        return element
    params = cast("Any", element).data
    return params.storage, params.expressed, layout == "axis"


def _equal(values: Sequence[object]) -> bool:
    first = values[0]
    return all(value is first or value == first for value in values)


def _have_one_type(kinds: _Kinds) -> bool:
    return _equal(kinds) or (_equal([*map(element_or_self, kinds)]) and have_fitting_shapes(kinds))


def _may_be_inferred(kinds: _Kinds) -> bool:
    return _equal([*map(inferred_as, kinds)]) and have_fitting_shapes(kinds)


def _have_one_rank(kinds: _Kinds) -> bool:
    return len({len(shape) for kind in kinds if (shape := shape_of(kind)) is not None}) <= 1


def _of_elements(measure: Callable[[Attribute], object]) -> Callable[[_Kinds], bool]:
    return lambda kinds: _equal([*map(measure, kinds)])


def _demand(holds: Callable[[_Kinds], bool], message: str, *, results: bool = True) -> _Rule:
    def rule(op: Operation) -> None:
        kinds = [*op.operand_types, *(op.result_types if results else ())]
        if kinds and not holds(kinds):
            raise VerifyException(message)

    return rule


_Rule = Callable[[Operation], None]


def _elementwise(op: Operation) -> None:
    """Tensors or vectors of one shape; scalars beside them."""
    mapped = (TensorType, UnrankedTensorType, VectorType)
    sides: Sequence[_Kinds] = (op.operand_types, op.result_types)
    operands, results = (
        [cast("Attribute", kind) for kind in side if isinstance(kind, mapped)] for side in sides
    )
    if not operands and not results:
        return
    if not operands:
        raise VerifyException(
            "if a result is non-scalar, then at least one operand must be non-scalar"
        )
    if len(results) != len(op.results):
        raise VerifyException("if an operand is non-scalar, then all results must be non-scalar")
    kinds = [*operands, *results]
    if len({kind.name for kind in kinds}) > 1 or not have_fitting_shapes(kinds):
        raise VerifyException(
            "all non-scalar operands/results must have the same shape and base type"
        )


def _broadcastable(op: Operation) -> None:
    """Results have the shape that operands are broadcast to."""
    kinds = [
        cast("Attribute", k) for k in op.operand_types if isinstance(k, TensorType | VectorType)
    ]
    shapes = [shape_of(kind) for kind in kinds]
    if not shapes:
        return
    expected = broadcast([shape for shape in shapes if shape is not None])
    if expected is None:
        raise VerifyException(
            f"operands don't have broadcast-compatible shapes: {', '.join(map(listed, shapes))}"
        )
    for kind in op.result_types:
        shape = shape_of(kind)
        if shape is None or not isinstance(kind, TensorType | VectorType):
            continue
        suffix = shape[max(len(shape) - len(expected), 0) :]
        if not fit(expected, suffix):
            raise VerifyException(
                f"result type '{kind}' does not have the shape {listed(expected)} that its "
                f"operands are broadcast to"
            )


def _resolvable(op: Operation) -> None:
    for operand in op.operands:
        if operand.type.name == "tosa.shape" and not isinstance(operand.owner, Operation):
            raise VerifyException("shape operand is not compile time resolvable")


def _one_shape_rank(op: Operation) -> None:
    ranks = [cast("Any", kind).rank.data for kind in (*op.operand_types, *op.result_types)]
    if not op.operands:
        raise VerifyException("expected 1 or more operands, but found 0")
    if not _equal(ranks):
        raise VerifyException("operands and result must be shapes of one rank")


def _pairwise(word: str, measure: Callable[[Attribute], object]) -> _Rule:
    def rule(op: Operation) -> None:
        if len(op.operands) != len(op.results):
            raise VerifyException("requires the same number of operands and results")
        for index, (a, b) in enumerate(zip(op.operand_types, op.result_types, strict=True)):
            if measure(a) != measure(b):
                raise VerifyException(
                    f"requires the same {word} for operand and result at index {index}"
                )

    return rule


_ALL = "for all operands and results"
TRAITS: Mapping[str, _Rule] = {
    "same-input-output-dimensions": _demand(
        have_fitting_shapes,
        "failed to verify that input and output have the same tensor dimensions",
    ),
    "same-operands-and-result-type": _demand(_have_one_type, f"requires the same type {_ALL}"),
    "same-operands-and-result-shape": _demand(
        have_fitting_shapes, f"requires the same shape {_ALL}"
    ),
    "same-operands-and-result-element-type": _demand(
        _of_elements(element_or_self), f"requires the same element type {_ALL}"
    ),
    "same-operands-and-result-rank": _demand(
        _have_one_rank, "operands and results must have one rank"
    ),
    "same-operands-element-type": _demand(
        _of_elements(element_or_self),
        "requires the same element type for all operands",
        results=False,
    ),
    "same-operands-shape": _demand(
        have_fitting_shapes, "requires the same shape for all operands", results=False
    ),
    "same-type-operands": _demand(
        _equal, "requires all operands to have the same type", results=False
    ),
    "compatible-operands-element-type": _demand(
        _of_elements(inferred_as),
        "requires compatible element types for all operands",
        results=False,
    ),
    "compatible-element-type": _demand(
        _of_elements(inferred_as), f"requires compatible element types {_ALL}"
    ),
    "compatible-type": _demand(_may_be_inferred, f"requires compatible types {_ALL}"),
    "elementwise": _elementwise,
    "broadcastable": _broadcastable,
    "resolvable-shapes": _resolvable,
    "same-shape-ranks": _one_shape_rank,
    "pairwise-same-type": _pairwise("type", lambda kind: kind),
    "pairwise-same-element-type": _pairwise("element type", element_or_self),
}
"""By the word of the table; VerifyException unless the demand holds."""
