"""The hidden region of a structured op: scalar operations, by the types of its arguments.

The row has them as steps, each a number and what it computes:

    body 1=cast:arg2 arg0; 2=cast:arg2 arg1; 3=mul 1 2; 4=add arg2 3; yield 4

`mul` is `arith.mulf` on floats, `arith.muli` on integers, `arith.andi` on bits, `complex.mul`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    f64,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from qdialect.plugins.mlir.upstream.attributes import default_of
from qdialect.plugins.mlir.upstream.table import find_row

#: for floats, integers, bits, and complex numbers
BINARY = {
    "add": ("arith.addf", "arith.addi", "arith.ori", "complex.add"),
    "sub": ("arith.subf", "arith.subi", "", "complex.sub"),
    "mul": ("arith.mulf", "arith.muli", "arith.andi", "complex.mul"),
    "div": ("arith.divf", "arith.divsi", "", "complex.div"),
    "div_unsigned": ("", "arith.divui", "", ""),
    "max_signed": ("arith.maximumf", "arith.maxsi", "arith.maxsi", ""),
    "min_signed": ("arith.minimumf", "arith.minsi", "arith.minsi", ""),
    "max_unsigned": ("arith.maximumf", "arith.maxui", "arith.maxui", ""),
    "min_unsigned": ("arith.minimumf", "arith.minui", "arith.minui", ""),
    "powf": ("math.powf", "", "", ""),
}
UNARY = {
    "exp": "math.exp",
    "log": "math.log",
    "abs": "math.absf",
    "ceil": "math.ceil",
    "floor": "math.floor",
    "negf": "arith.negf",
    "round": "math.round",
    "sqrt": "math.sqrt",
    "rsqrt": "math.rsqrt",
    "tanh": "math.tanh",
    "erf": "math.erf",
}
_NAMED_TYPES = {"f64": f64, "i32": i32, "i64": i64}


class Body:
    """A block with scalar operations that is being filled."""

    def __init__(self, context: Context, types: Sequence[Attribute]) -> None:
        self._context = context
        self.block = Block(arg_types=types)

    def op(
        self,
        name: str,
        operands: Sequence[SSAValue],
        results: Sequence[Attribute],
        **properties: Attribute,
    ) -> Operation:
        """Add an op, with the defaults of its properties."""
        row = find_row(name)
        for entry in row.properties.values() if row else ():
            default = default_of(entry, self._context)
            if default is not None:
                properties.setdefault(entry.name, default)
        kind = self._context.get_op(name)
        made = kind.create(operands=operands, result_types=results, properties=properties)
        self.block.add_op(made)
        return made

    def value(
        self,
        name: str,
        operands: Sequence[SSAValue],
        type: Attribute,
        **properties: Attribute,
    ) -> SSAValue:
        """The result of `op`."""
        return self.op(name, operands, [type], **properties).results[0]


def fill(body: Body, steps: str, words: Callable[[str], str]) -> None:
    """Add the ops of `steps`; `words` gives what stands for a word in capitals, which the
    properties of the op decide. VerifyException where an operation has no meaning."""
    values: dict[str, SSAValue] = {f"arg{n}": arg for n, arg in enumerate(body.block.args)}
    for step in steps.split(";"):
        name, equals, text = step.strip().partition("=")
        if not equals:
            _, *yielded = name.split()
            body.op("linalg.yield", [values[key] for key in yielded], [])
            return
        function, *arguments = text.split()
        function, _, detail = function.partition(":")
        if function.isupper():
            function = words(function)
        kind = values[detail].type if detail in values else _NAMED_TYPES.get(detail)
        operands = [values[key] for key in arguments if key in values]
        values[name] = _compute(body, function, detail, kind, operands)


def _compute(
    body: Body, function: str, detail: str, kind: Attribute | None, operands: list[SSAValue]
) -> SSAValue:
    if function == "index":
        return body.value("linalg.index", [], IndexType(), dim=IntegerAttr(int(detail), i64))
    if function == "constant" and "." in detail:
        return body.value("arith.constant", [], f64, value=FloatAttr(float(detail), f64))
    if function == "constant":
        return body.value("arith.constant", [], i64, value=IntegerAttr(int(detail), i64))
    if function in ("cast_signed", "cast_unsigned"):
        assert kind is not None
        return _cast(body, operands[0], kind, signed=function == "cast_signed")
    if function == "select":
        return body.value("arith.select", operands, operands[1].type)
    first = operands[0]
    if function == "square":
        return _binary(body, "mul", first, first)
    if function == "reciprocal":
        one = FloatAttr(1.0, cast("Any", first.type))
        return _binary(body, "div", body.value("arith.constant", [], first.type, value=one), first)
    if function in UNARY:
        return body.value(UNARY[function], [first], first.type)
    return _binary(body, function, first, operands[1])


def _binary(body: Body, function: str, left: SSAValue, right: SSAValue) -> SSAValue:
    kind = left.type
    if isinstance(kind, ComplexType):
        column = 3
    elif isinstance(kind, AnyFloat):
        column = 0
    elif kind == IntegerType(1):
        column = 2
    else:
        column = 1
    name = BINARY.get(function, ("",) * 4)[column]
    if not name:
        raise VerifyException(f"{function} has no meaning on {kind}")
    return body.value(name, [left, right], cast("Attribute", kind))


def _cast(body: Body, value: SSAValue, kind: Attribute, *, signed: bool) -> SSAValue:
    name = _cast_name(value.type, kind, signed)
    if name == "":
        return value
    if name == "complex.create":
        part = _cast(body, value, cast("ComplexType[Any]", kind).element_type, signed=signed)
        real = cast("Any", part.type)
        other = body.value("arith.constant", [], real, value=FloatAttr(0.0, real))
        return body.value("complex.create", [part, other], kind)
    return body.value(name, [value], kind)


def _cast_name(source: Attribute, target: Attribute, signed: bool) -> str:
    """The op that converts a scalar; empty if there is nothing to do."""
    if source == target:
        return ""
    if isinstance(target, ComplexType) and not isinstance(cast("object", source), ComplexType):
        return "complex.create"
    if isinstance(source, IndexType) or isinstance(target, IndexType):
        return "arith.index_cast"
    if isinstance(source, IntegerType) and isinstance(target, IntegerType):
        if target.bitwidth < source.bitwidth:
            return "arith.trunci"
        return "arith.extsi" if signed else "arith.extui"
    if isinstance(source, AnyFloat) and isinstance(target, IntegerType):
        return "arith.fptosi" if signed else "arith.fptoui"
    if isinstance(source, IntegerType) and isinstance(target, AnyFloat):
        return "arith.sitofp" if signed else "arith.uitofp"
    if isinstance(source, AnyFloat) and isinstance(target, AnyFloat):
        return "arith.extf" if target.bitwidth > source.bitwidth else "arith.truncf"
    return ""
