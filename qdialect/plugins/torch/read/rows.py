"""What import functions share: their form, and the rows that ops declare themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from qdialect.ir.ops.declare import AtenRow
from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.torch.program import Node, Ref

if TYPE_CHECKING:
    from qdialect.plugins.torch.read.importer import Importer

Results = Sequence[SSAValue | None] | None
"""The values of a node's results (None: nobody reads it), or None for a form not covered."""
Rule = Callable[["Importer", Node], Results]


def same(kind: type[Any], row: AtenRow, onnx: str | None) -> Rule:
    """The op of the same meaning on floats; on integers, the node of ONNX of the same meaning.

    Operands are converted to the type of the result, as PyTorch promotes them; Python numbers
    become constants of that type.
    """

    def rule(imp: Importer, node: Node) -> Results:
        name = node.results[0]
        if len(node.results) != 1 or not isinstance(name, str):
            return None
        if unread(node, (*row.operands, *(argument for argument, _ in row.attributes.values()))):
            return None
        element = imp.element(name)
        if element not in FLOATS and onnx is None:
            return None
        operands = [imp.cast(imp.value(node.arguments[a], element), element) for a in row.operands]
        if element not in FLOATS:
            return [imp.onnx(onnx or "", operands, imp.type(name))]
        properties = {
            name: _like(default, node.arguments.get(argument, default))
            for name, (argument, default) in row.attributes.items()
        }
        return [imp.build(kind, *operands, **properties)]

    return rule


def _like(default: Any, value: Any) -> Any:
    return float(value) if isinstance(default, float) else value


def unread(node: Node, names: Sequence[str]) -> list[str]:
    """The arguments that say something and are not among `names`."""
    return [
        name
        for name, value in node.arguments.items()
        if name not in names and value not in (None, False, [], ()) and not _says_nothing(value)
    ]


def _says_nothing(value: Any) -> bool:
    from qdialect.plugins.torch.program import Other

    return isinstance(value, Other)


def result(node: Node) -> str:
    """The name of the one result."""
    (name,) = node.results
    if not isinstance(name, str):
        raise ValueError("one result is expected")
    return name


def tensors(node: Node) -> list[str]:
    """The names of all tensors and numbers that a node reads."""
    return [name for value in node.arguments.values() for name in references(value)]


def references(argument: Any) -> list[str]:
    """The names in an argument."""
    if isinstance(argument, Ref):
        return [argument.name]
    if isinstance(argument, list):
        return [name for inner in argument for name in references(inner)]  # pyright: ignore[reportUnknownVariableType]
    return []


def axis(argument: int, rank: int) -> int:
    """A dimension that may count from the end; of a scalar, 0 and -1 name what is not there."""
    return argument % rank if rank else 0


def pair(value: Any, rank: int, default: int) -> tuple[int, ...]:
    """A list of one number for each spatial dimension; one number stands for all of them."""
    if value is None or value == []:
        return (default,) * rank
    numbers = tuple(int(v) for v in value) if isinstance(value, list) else (int(value),)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    return numbers * rank if len(numbers) == 1 else numbers
