"""Ops of PyTorch that were kept as they are, as layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import Module

from qdialect.plugins.torch.dialect import TorchNodeOp
from qdialect.plugins.torch.evaluate import argument_of, flattened, overload_of
from qdialect.plugins.torch.write.rows import Results
from qdialect.plugins.torch.write.tensor_types import inner_dtype


class Operand(NamedTuple):
    """In the place of an operand, among arguments."""

    number: int


class TorchNode(Module):
    """One op of PyTorch: the function and its arguments by name, `Operand` for tensors."""

    def __init__(
        self, target: str, function: Any, arguments: Mapping[str, Any], kinds: Sequence[torch.dtype]
    ) -> None:
        super().__init__()
        self.target, self.function, self.kinds = target, function, tuple(kinds)
        self.arguments = dict(arguments)

    def extra_repr(self) -> str:
        """The name of the op."""
        return self.target

    def forward(self, *values: Tensor) -> Results:
        """The results of the op, those of lists one after the other."""
        given = {name: _filled(value, values) for name, value in self.arguments.items()}
        found = flattened(self.function(**given))
        parts = [part.to(kind) for part, kind in zip(found, self.kinds, strict=True)]
        return parts[0] if len(parts) == 1 else tuple(parts)


def _filled(argument: Any, values: Sequence[Tensor]) -> Any:
    if isinstance(argument, Operand):
        return values[argument.number]
    if isinstance(argument, list):
        return [_filled(inner, values) for inner in cast("list[Any]", argument)]
    return argument


def torch_layer(op: TorchNodeOp) -> TorchNode:
    """The layer of an op of PyTorch; QError (`cannot-evaluate`) for one that is not run."""
    operands = [Operand(number) for number in range(len(op.operands))]
    arguments = {name: argument_of(v, operands) for name, v in op.arguments.data.items()}
    kinds = [inner_dtype(result.type) for result in op.results]
    return TorchNode(op.target.data, overload_of(op), arguments, kinds)
