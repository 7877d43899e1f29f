"""Verification of qparams on the ports of an op, from its declaration.

Structure only: whether a rewrite may use a port is the pass's and the target's
business.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.behaviors import Accumulator, Behavior, Port, Rule
from qdialect.dialects.nn.base import shape_of, tensor_type
from qdialect.dialects.quant import UniformType, quant_element

if TYPE_CHECKING:
    from qdialect.qparams import QParams


def verify_ports(op: Operation) -> None:
    """Check element types and qparams against the op's declaration.

    Raises `VerifyException` naming the port.
    """
    from qdialect.dialects.nn.behaviors import BY_NAME

    behavior = BY_NAME[op.name]
    if not any(quant_element(v.type) for v in (*op.operands, *op.results)):
        _verify_float(op, behavior)
        return
    expressed: set[str] = set()
    for index, operand in enumerate(op.operands):
        _verify_port(op, behavior.operand_port(index), operand, expressed)
    for index, result in enumerate(op.results):
        _verify_port(op, behavior.result_port(index), result, expressed)
    if len(expressed) > 1:
        raise VerifyException(
            f"'{op.name}' op mixes expressed types {', '.join(sorted(expressed))}"
        )
    if behavior.is_tied and not behavior.mixes:
        _verify_tied(op, behavior)
    if behavior.accumulator:
        _verify_bias(op, behavior.accumulator)


def _verify_float(op: Operation, behavior: Behavior) -> None:
    kinds = {
        tensor_type(v).element_type
        for i, v in enumerate(op.operands)
        if behavior.operand_port(i).rule is not Rule.PLAIN
    }
    kinds |= {tensor_type(result).element_type for result in op.results}
    if len(kinds) > 1:
        shown = ", ".join(sorted(str(kind) for kind in kinds))
        raise VerifyException(f"'{op.name}' op mixes element types {shown}")


def _verify_port(op: Operation, port: Port, value: SSAValue, expressed: set[str]) -> None:
    element = quant_element(value.type)
    if element is None:
        if port.rule is not Rule.PLAIN:
            expressed.add(str(tensor_type(value).element_type))
        return
    if port.rule is Rule.PLAIN:
        raise VerifyException(f"'{op.name}' op takes no quantized {port.role}")
    qparams = element.qparams
    expressed.add(qparams.expressed)
    if port.storages and str(qparams.storage) not in port.storages:
        raise VerifyException(
            f"'{op.name}' op takes no {port.role} stored as {qparams.storage}"
        )
    if port.axes is None or qparams.is_per_tensor:
        return
    allowed = port.axes(op)
    for axis, block in qparams.blocks:
        if axis not in allowed and block != shape_of(value)[axis]:
            raise VerifyException(
                f"'{op.name}' op takes no {port.role} quantized along dimension {axis}"
            )


def _verify_tied(op: Operation, behavior: Behavior) -> None:
    tied = [
        v for i, v in enumerate(op.operands) if behavior.operand_port(i).rule is Rule.TIED
    ]
    elements = [quant_element(v.type) for v in tied]
    result = quant_element(op.results[0].type)
    if result is None or any(element is None for element in elements):
        raise VerifyException(
            f"'{op.name}' op must have the same qparams on operand and result"
        )
    known = [e.qparams for e in elements if e is not None]
    reason = tied_mismatch(op, behavior, known, result.qparams)
    if reason:
        raise VerifyException(f"'{op.name}' op {reason}")


def tied_mismatch(
    op: Operation, behavior: Behavior, operands: list[QParams], result: QParams
) -> str | None:
    """Why tied qparams do not belong together, or None if they do."""
    if behavior.movement is None:
        if all(q == result for q in operands):
            return None
        return "must have the same qparams on operand and result"
    if all(q == result for q in operands) and result.is_per_tensor:
        return None
    from qdialect.qparams.field import Field
    from qdialect.qparams.legality import Illegal

    shapes = [shape_of(v) for v in op.operands[: len(operands)]]
    fields = [Field.of(q, s) for q, s in zip(operands, shapes, strict=True)]
    pulled = behavior.movement(op).pull(fields)
    if isinstance(pulled, Illegal):
        return f"cannot carry these qparams: {pulled.reason}"
    expected = pulled.to_qparams()
    if Field.of(result, shape_of(op.results[0])).to_qparams() != expected:
        return f"result must have qparams {UniformType(expected)}"
    return None


def _verify_bias(op: Operation, acc: Accumulator) -> None:
    if acc.bias is None or acc.bias >= len(op.operands):
        return
    bias = quant_element(op.operands[acc.bias].type)
    if bias is None:
        return
    lhs = quant_element(op.operands[acc.lhs].type)
    rhs = quant_element(op.operands[acc.rhs].type)
    if lhs is None or rhs is None:
        raise VerifyException(f"'{op.name}' op has a quantized bias on float operands")
    if not bias_matches(lhs.qparams, rhs.qparams, bias.qparams):
        raise VerifyException(
            f"'{op.name}' op bias must be stored as i32 with zero point 0 and scale "
            "(input scale * weight scale)"
        )


def bias_matches(lhs: QParams, rhs: QParams, bias: QParams) -> bool:
    """The bias invariant: i32, zero points 0, scale = product, to within the
    rounding of the product to the expressed type (files store it rounded)."""
    if bias.storage.width != 32 or any(bias.zero_point_list()):
        return False
    if not lhs.is_per_tensor:
        return False
    products = [lhs.scale * scale for scale in rhs.scale_list()]
    scales = bias.scale_list()
    if len(scales) not in (1, len(products)) and len(products) != 1:
        return False
    count = max(len(scales), len(products))
    return all(
        _single(scales[i % len(scales)]) == _single(products[i % len(products)])
        for i in range(count)
    )


def _single(value: float) -> float:
    """Nearest float32 (overflow to infinity)."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf")
