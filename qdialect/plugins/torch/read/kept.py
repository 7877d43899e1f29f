"""What is kept of a program without being understood: `torch.node`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from qdialect.plugins.torch.dialect import TorchNodeOp, ValueAttr
from qdialect.plugins.torch.program import ElementType, Node, Other, Ref, Subgraph
from qdialect.plugins.torch.read.rows import Results

if TYPE_CHECKING:
    from qdialect.plugins.torch.read.importer import Importer

_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")


def keep(imp: Importer, node: Node) -> Results:
    """The node as it is.

    InputError (`unsupported`) for one with graphs of its own, without tensors as results, or with
    sizes among its arguments that only the run tells.
    """
    results = node.names
    if all(name is None or name in imp.numbers for name in results):
        return [None] * len(results)
    if any(isinstance(value, Subgraph) for value in node.arguments.values()):
        raise imp.unsupported(
            f"'{node.target}' is control flow that depends on data, which is not supported"
        )
    if _TARGET.fullmatch(node.target) is None:
        raise imp.invalid(f"'{node.target}' is no name of an op")
    operands: list[SSAValue] = []
    arguments = {
        name: _attribute(imp, node, value, operands)
        for name, value in node.arguments.items()
        if not isinstance(value, Other)
    }
    names = [name for name in results if name is not None and name in imp.program.graph.tensors]
    if len(names) != len([name for name in results if name is not None]):
        raise imp.unsupported(f"'{node.target}' gives something that is no tensor")
    op = TorchNodeOp(node.target, operands, [imp.type(name) for name in names], arguments)
    values = iter(imp.emit(op).results)
    return [None if name is None else next(values) for name in results]


def _attribute(imp: Importer, node: Node, value: Any, operands: list[SSAValue]) -> Attribute:
    """An argument as an attribute; tensors join the operands."""
    if isinstance(value, Ref) and (extent := imp.numbers.get(value.name)) is not None:
        if extent.number is None:
            raise imp.unsupported(f"'{node.target}' takes a size that only the run tells")
        return IntegerAttr(extent.number, i64)
    if isinstance(value, Ref):
        operand = imp.plain(imp.value(value))
        if operand not in operands:
            operands.append(operand)
        return ValueAttr(operands.index(operand))
    if value is None:
        return UnitAttr()
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, ElementType):
        return imp.element_of(value)
    if isinstance(value, list):
        return ArrayAttr([_attribute(imp, node, inner, operands) for inner in value])  # pyright: ignore[reportUnknownVariableType]
    raise imp.unsupported(f"'{node.target}' has an argument that cannot be kept")
