"""Ops of upstream dialects that xDSL defines too narrowly to read what mlir-opt writes."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.arith import IntegerOverflowAttr
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.quant import element_type


def _width(type: Attribute) -> int:
    element: Attribute = element_type(type)
    if not isinstance(element, IntegerType):
        raise VerifyException(f"operand or result must be signless-integer-like, but got {type}")
    return cast("IntegerType", element).width.data


@irdl_op_definition
class TruncIOp(IRDLOperation):
    """`arith.trunci` with overflow flags, on integers and on tensors and vectors of them."""

    name = "arith.trunci"
    input = operand_def()
    result = result_def()
    overflow_flags = prop_def(
        IntegerOverflowAttr, default_value=IntegerOverflowAttr("none"), prop_name="overflowFlags"
    )
    traits = traits_def(Pure())
    assembly_format = (
        "$input (`overflow` `` $overflowFlags^)? attr-dict `:` type($input) `to` type($result)"
    )

    def verify_(self) -> None:
        """VerifyException unless the result is narrower than the operand."""
        if _width(self.result.type) >= _width(self.input.type):
            raise VerifyException(
                f"'{self.name}' op result type {self.result.type} "
                f"must be narrower than operand type {self.input.type}"
            )
