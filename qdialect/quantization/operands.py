"""What ops take as their first operand, on samples: of a float function, or of one that stands for
it, sample by sample. What several ops take is computed once, and nothing that none of them takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.profile.engines import open_engine
from qdialect.profile.instrument import Instrumented, Observed
from qdialect.reference import Interpreter, argument_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.context import QContext
    from qdialect.quantization.values import Values

    Arrays = Mapping[str, NDArray[Any]]


class OperandRun:
    """Runs a module, which may be changed for it; `values` says what in it an op takes."""

    def __init__(
        self, module: ModuleOp, ctx: QContext, values: Mapping[Operation, SSAValue], engine: str
    ) -> None:
        function = Interpreter(ctx, module).function()
        plan = Instrumented(module, function)
        arguments: dict[SSAValue, str] = {}
        arguments.update(zip(function.body.block.args, argument_names(function), strict=True))
        names: dict[SSAValue, str] = {}
        self._users: dict[str, list[Operation]] = {}
        for op, value in values.items():
            if value not in names:
                names[value] = f"operand {len(names)}"
                if (argument := arguments.get(value)) is not None:
                    plan.arguments[argument] = (names[value],)
                else:
                    plan.observed.append(Observed((names[value],), value))
            self._users.setdefault(names[value], []).append(op)
        self._arguments = plan.arguments
        self._engine = open_engine(engine, plan, ctx) if plan.observed else None

    def of(self, sample: Arrays) -> Iterator[tuple[Operation, NDArray[Any]]]:
        """The ops, and what each takes of a sample."""
        if self._engine is None:
            pairs = ((keys, sample[name]) for name, keys in self._arguments.items())
        else:
            pairs = self._engine.run(sample)
        for (key,), array in pairs:
            for op in self._users[key]:
                yield op, np.asarray(array)


def float_operands(values: Values, ops: Sequence[Operation], engine: str) -> OperandRun:
    """What ops of a float function take in it."""
    module = values.function.parent_op()
    assert isinstance(module, ModuleOp)
    clone = module.clone()
    function = Interpreter(values.ctx, clone).function()
    cloned = dict(zip(values.block.ops, function.body.block.ops, strict=True))
    return OperandRun(clone, values.ctx, {op: cloned[op].operands[0] for op in ops}, engine)
