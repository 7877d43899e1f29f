"""Verification of qparams on the ports of an op, from its declaration.

Structure only: whether a rewrite may use a port is the pass's and the target's
business.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.qparams.legality import Illegal
from qdialect.ir.behaviors import Accumulator, Behavior, Port, PortKind
from qdialect.ir.behaviors.flow import carry_all_down, carry_down
from qdialect.ir.behaviors.shapes import shape_of, tensor_type
from qdialect.ir.ops.declare import behavior_of
from qdialect.ir.ops.shapes import Shape
from qdialect.ir.quant import UniformType, quant_element

if TYPE_CHECKING:
    from qdialect.algebra.qparams import QParams


def verify_ports(op: Operation, behavior: Behavior) -> None:
    """Check element types and qparams against the op's declaration.

    Raises `VerifyException` naming the port.
    """
    if not any(quant_element(v.type) for v in (*op.operands, *op.results)):
        _verify_float(op, behavior)
        return
    verify_declared(op, behavior)


def verify_declared(op: Operation, behavior: Behavior) -> None:
    """Check quantized types, if there are any, against a declaration."""
    if not any(quant_element(v.type) for v in (*op.operands, *op.results)):
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
    if (behavior.is_tied or behavior.compares) and not behavior.requantizes_inputs:
        _verify_tied(op, behavior)
    if behavior.accumulator:
        _verify_bias(op, behavior.accumulator)


def _verify_float(op: Operation, behavior: Behavior) -> None:
    kinds = {
        tensor_type(v).element_type
        for i, v in enumerate(op.operands)
        if behavior.operand_port(i).kind is not PortKind.PLAIN
    }
    kinds |= {
        tensor_type(result).element_type
        for i, result in enumerate(op.results)
        if behavior.result_port(i).kind is not PortKind.PLAIN
    }
    if len(kinds) > 1:
        shown = ", ".join(sorted(str(kind) for kind in kinds))
        raise VerifyException(f"'{op.name}' op mixes element types {shown}")


def _verify_port(op: Operation, port: Port, value: SSAValue, expressed: set[str]) -> None:
    element = quant_element(value.type)
    if element is None:
        if port.kind is not PortKind.PLAIN:
            expressed.add(str(tensor_type(value).element_type))
        return
    if port.kind is PortKind.PLAIN:
        raise VerifyException(f"'{op.name}' op takes no quantized {port.role}")
    qparams = element.qparams
    expressed.add(qparams.expressed)
    reason = port_refusal(op, port, qparams, shape_of(value))
    if reason:
        raise VerifyException(f"'{op.name}' op {reason}")


def port_refusal(op: Operation, port: Port, qparams: QParams, shape: Shape) -> str | None:
    """Why a value of `shape` with these qparams cannot be on `port`, or None."""
    if port.storages and str(qparams.storage) not in port.storages:
        return f"takes no {port.role} stored as {qparams.storage}"
    if port.axes is None or qparams.is_per_tensor:
        return None
    allowed = port.axes(op)
    for axis, block in qparams.blocks:
        if axis not in allowed and not (axis < len(shape) and block == shape[axis]):
            return f"takes no {port.role} quantized along dimension {axis}"
    return None


def _verify_tied(op: Operation, behavior: Behavior) -> None:
    tied = [v for i, v in enumerate(op.operands) if behavior.operand_port(i).kind is PortKind.TIED]
    elements = [quant_element(v.type) for v in tied]
    operands = [e.qparams for e in elements if e is not None]
    if behavior.compares:
        _verify_comparable(op, behavior, operands, len(tied))
    carried: list[QParams] | Illegal | None = None
    for index, value in enumerate(op.results):
        if behavior.result_port(index).kind is not PortKind.TIED:
            continue
        result = quant_element(value.type)
        if result is None or len(operands) != len(tied):
            raise VerifyException(
                f"'{op.name}' op must have the same qparams on operand and result"
            )
        try:
            if carried is None:  # all at once: there may be very many
                declared = [e and e.qparams for e in map(quant_element, op.result_types)]
                carried = carry_all_down(op, behavior, operands, declared)
            if isinstance(carried, Illegal):
                expected = carry_down(op, behavior, operands, index, like=result.qparams)
            else:
                expected = carried[index]
            if expected == result.qparams:
                continue
            if isinstance(expected, Illegal):
                raise VerifyException(
                    f"'{op.name}' op cannot carry these qparams: {expected.reason}"
                )
            alike = is_same_field(expected, result.qparams, value)
        except ValueError as error:
            raise VerifyException(f"'{op.name}' op fits no such shapes: {error}") from None
        if not alike:
            raise VerifyException(
                f"'{op.name}' op result must be quantized as {UniformType(expected)}, "
                f"but is {result}{expected.difference(result.qparams)}"
            )


def _verify_comparable(
    op: Operation, behavior: Behavior, operands: list[QParams], tied: int
) -> None:
    if len(operands) != tied:
        raise VerifyException(f"'{op.name}' op compares codes with floats")
    found = carry_down(op, behavior, operands)
    if isinstance(found, Illegal):
        raise VerifyException(f"'{op.name}' op cannot compare these codes: {found.reason}")


def is_same_field(a: QParams, b: QParams, value: SSAValue) -> bool:
    """Whether both give every element of `value` the same scale and zero point. ValueError where
    one does not fit its shape."""
    from qdialect.algebra.qparams.parameter_field import ParameterField

    shape = shape_of(value)
    return ParameterField.of(a, shape).gives_same(ParameterField.of(b, shape))


def carries_fields(op: Operation) -> bool:
    """Whether the qparams of one value of `op`, an `nn` op, follow from those of others."""
    behavior = behavior_of(op.name)
    return behavior.is_tied or behavior.compares


def bias_fits(op: Operation) -> bool:
    """Whether a bias of `op`, an `nn` op, has the scale that it must have."""
    behavior = behavior_of(op.name)
    try:
        if behavior.accumulator is not None:
            _verify_bias(op, behavior.accumulator)
    except VerifyException:
        return False
    return True


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
    reason = bias_refusal(lhs.qparams, rhs.qparams, bias.qparams, acc.repeats(op))
    if reason:
        raise VerifyException(f"'{op.name}' op bias {reason}")


def bias_matches(lhs: QParams, rhs: QParams, bias: QParams, repeats: int = 1) -> bool:
    """Whether the bias invariant holds (`bias_refusal`)."""
    return bias_refusal(lhs, rhs, bias, repeats) is None


def bias_refusal(lhs: QParams, rhs: QParams, bias: QParams, repeats: int = 1) -> str | None:
    """Why the bias invariant does not hold, or None: i32, zero points 0, scale = product,
    to within the rounding of the product to the expressed type (files store it rounded);
    scales of the weight `repeats` times over."""
    storage = bias.storage
    if storage.width != 32 or not storage.signed or storage.is_float or storage.quantile:
        return f"must be stored as i32, not {storage}"
    zero = next((z for z in bias.zero_point_list() if z), 0)
    if zero:
        return f"must have zero point 0, not {zero}"
    if not lhs.is_per_tensor:
        return "has no scale where the input is not quantized per tensor"
    step = lhs.scale
    products = [step * scale for scale in rhs.scale_list()]
    if not rhs.is_per_tensor:
        products *= repeats
    scales = bias.scale_list()
    if len(scales) not in (1, len(products)) and len(products) != 1:
        return f"has {len(scales)} scales for {len(products)} of the weight"
    count = max(len(scales), len(products))
    scales, products = (values * (count // len(values)) for values in (scales, products))
    if _singles(scales) == _singles(products):
        return None
    for i, (scale, product) in enumerate(zip(scales, products, strict=True)):
        if _single(scale) != _single(product):
            place = f" in channel {i}" if count > 1 else ""
            return f"must have the scale input scale * weight scale = {product}{place}, not {scale}"
    return None


def _singles(values: list[float]) -> bytes | list[float]:
    try:
        return struct.pack(f"<{len(values)}f", *values)
    except OverflowError:
        return [_single(value) for value in values]


def _single(value: float) -> float:
    """Nearest float32 (overflow to infinity)."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf")
