"""Ops of other formats that are kept as they are: `onnx.node`, `torch.node`, `tflite.node`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, cast

from typing_extensions import override
from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, traits_def
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind

#: a kept op whose bodies were quantized again, until its results count as changed
RELAXED = "onnx.relaxed"


class _Effects(MemoryEffect):
    """No effects, except for ops that have state (`has_state`): those write, so that neither DCE
    nor CSE touches them."""

    @classmethod
    @override
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.WRITE)} if cast("Any", op).has_state else set()


class KeptOp(IRDLOperation):
    """An op of another format. Passes leave it as it is, and an engine of that format runs it."""

    traits = traits_def(_Effects())

    @property
    @abstractmethod
    def format(self) -> str:
        """The name of the format, for messages."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The name of the op in its format."""

    @property
    @abstractmethod
    def has_state(self) -> bool:
        """Whether the op may give other results when it runs twice."""

    @property
    def reads_shape(self) -> bool:
        """Whether the results depend on the shapes of the operands only."""
        return False


def kind_of(op: Operation) -> str:
    """The name of an op in the format that it is from."""
    if isinstance(op, KeptOp):
        return op.kind
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name
