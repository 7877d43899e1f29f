"""What the handlers of TOSA ops are given: a builder that knows what integers mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.ir.context import QContext
from qdialect.ir.ops.constants import payload
from qdialect.plugins.common.raising.raised import Builder, Raised
from qdialect.plugins.mlir.upstream import op_class
from qdialect.plugins.tosa.raising.meanings import Meanings


class Raiser(Builder):
    """A builder that knows what the integers of the function mean."""

    def __init__(self, session: QContext, meanings: Meanings) -> None:
        super().__init__(session)
        self.meanings = meanings
        self._constants: dict[tuple[bytes, Attribute], SSAValue] = {}

    def tosa_constant(self, x: Raised) -> SSAValue:
        """A constant as `tosa.const`, for an op of TOSA that stays."""
        assert x.array is not None and x.element is not None
        kind: TensorType[Any] = TensorType(x.element, list(x.array.shape))
        key = (x.array.tobytes(), kind)
        if key not in self._constants:
            values = payload(x.array, kind, self.session.blobs)
            const = op_class("tosa.const", None)
            assert const is not None
            made = const.create(result_types=[kind], properties={"values": values})
            self._constants[key] = self.append(made).results[0]
        return self._constants[key]


Handler = Callable[[Raiser, Operation, Sequence[Raised]], Raised]
"""Raises an op with one result."""
