"""Tensors that a program makes of numbers: `arange`, `full`, `zeros`, `eye`, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.torch.program import Node, Ref
from qdialect.plugins.torch.read.repeats import expanded
from qdialect.plugins.torch.read.rows import Results, Rule, result
from qdialect.plugins.torch.read.sizes import run_time_number

if TYPE_CHECKING:
    from qdialect.plugins.torch.read.importer import Importer


def full(value: float | None = None) -> Rule:
    """`full`, `zeros`, `ones`, `*_like`, `new_*`, `fill`: one number everywhere."""

    def rule(imp: Importer, node: Node) -> Results:
        name = result(node)
        element = imp.element(name)
        number: Any = value
        if number is None:
            number = node.arguments.get("fill_value", node.arguments.get("value"))
        scalar = imp.cast(imp.value(number, element), element)
        return [expanded(imp, imp.reshape(scalar, []), imp.shape(name))]

    return rule


def arange(imp: Importer, node: Node) -> Results:
    """`arange` to an end that the run computes."""
    name = result(node)
    element = imp.element(name)
    arguments = node.arguments
    start, step = arguments.get("start", 0), arguments.get("step", 1)
    bounds = [_bound(imp, argument, name) for argument in (start, arguments["end"], step)]
    if element in FLOATS and not all(isinstance(n, int | Ref) for n in (start, step)):
        return None
    numbers = imp.function("Range", bounds, imp.element_named("i64"), imp.shape(name))
    return [imp.cast(numbers, element)]


def _bound(imp: Importer, argument: Any, name: str) -> SSAValue:
    extent = imp.number(argument)
    if extent is not None:
        return run_time_number(imp, extent)
    if isinstance(argument, float) and argument.is_integer():
        return imp.scalar(int(argument))
    raise imp.unsupported(f"'{name}' has a bound that is no integer")


def scalar(imp: Importer, node: Node) -> Results:
    """`scalar_tensor`: a number that the program computes, as a tensor."""
    element = imp.element(result(node))
    return [imp.cast(imp.value(node.arguments["s"], element), element)]
