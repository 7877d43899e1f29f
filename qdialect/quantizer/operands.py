"""Values of a float function, or of one that stands for it, sample by sample: what ops take as
their first operand, or any. A value is computed once, and nothing that none of them needs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.interpreter import Interpreter, argument_names
from qdialect.quantizer.profile.engines import open_engine
from qdialect.quantizer.profile.instrument import Instrumented, Observed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.ir.context import QContext
    from qdialect.quantizer.values import Values

    Arrays = Mapping[str, NDArray[Any]]

Name = TypeVar("Name", bound=Hashable)


class ValueRun(Generic[Name]):
    """Runs a module, which may be changed for it, and gives `values` in it by their names (what an
    op takes goes by the op)."""

    def __init__(
        self, module: ModuleOp, ctx: QContext, values: Mapping[Name, SSAValue], engine: str
    ) -> None:
        function = Interpreter(ctx, module).function()
        plan = Instrumented(module, function)
        arguments: dict[SSAValue, str] = {}
        arguments.update(zip(function.body.block.args, argument_names(function), strict=True))
        names: dict[SSAValue, str] = {}
        self._users: dict[str, list[Name]] = {}
        for name, value in values.items():
            if value not in names:
                names[value] = f"operand {len(names)}"
                if (argument := arguments.get(value)) is not None:
                    plan.arguments[argument] = (names[value],)
                else:
                    plan.observed.append(Observed((names[value],), value))
            self._users.setdefault(names[value], []).append(name)
        self._arguments = plan.arguments
        self._engine = open_engine(engine, plan, ctx) if plan.observed else None

    def of(self, sample: Arrays) -> Iterator[tuple[Name, NDArray[Any]]]:
        """The names, and what each value is of a sample."""
        if self._engine is None:
            pairs = ((keys, sample[name]) for name, keys in self._arguments.items())
        else:
            pairs = self._engine.run(sample)
        for (key,), array in pairs:
            for name in self._users[key]:
                yield name, np.asarray(array)


def float_operands(values: Values, ops: Sequence[Operation], engine: str) -> ValueRun[Operation]:
    """What ops of a float function take in it."""
    return float_values(values, {op: op.operands[0] for op in ops}, engine)


def float_values(values: Values, named: Mapping[Name, SSAValue], engine: str) -> ValueRun[Name]:
    """Values of a float function, which stays as it is."""
    module = values.function.parent_op()
    assert isinstance(module, ModuleOp)
    clone = module.clone()
    block = Interpreter(values.ctx, clone).function().body.block
    cloned: dict[SSAValue, SSAValue] = dict(zip(values.block.args, block.args, strict=True))
    for op, copy in zip(values.block.ops, block.ops, strict=True):
        cloned.update(zip(op.results, copy.results, strict=True))
    found = {name: cloned[value] for name, value in named.items()}
    return ValueRun(clone, values.ctx, found, engine)
