"""`--verify-numerics`: after each pass, the interpreter before against after.

A pass whose rewrites all were exact must not change one bit.  What rewrites with a
weaker contract do to each result is bounded by the ops below them (`rewrite.summary`);
where there is no bound, because a clip may be gone or qparams are others, the difference
is only told.
"""

from __future__ import annotations

import sys
from math import inf, isinf
from typing import Any

from numpy.typing import NDArray
from typing_extensions import override
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.test_value import create_ssa_value

from qdialect.context import QContext
from qdialect.dialects.quant import ROUNDING_KEY, DCastOp, QCastOp, quant_element
from qdialect.dialects.verifier import op_where
from qdialect.errors import InputError, QError, UnsupportedError
from qdialect.interpreter import (
    Difference,
    Interpreter,
    compare_all,
    evaluate_op,
    random_inputs,
)
from qdialect.passes.manager import Instrumentation
from qdialect.rewrite.remarks import OutputBound
from qdialect.rewrite.summary import summarize
from qdialect.transforms.fold_interface import ROUNDING


class NumericsCheck(Instrumentation):
    """Compares every function on `samples` random inputs, half of them at boundaries."""

    def __init__(self, ctx: QContext, samples: int) -> None:
        self._ctx = ctx
        self._samples = samples
        self._before: ModuleOp | None = None
        self._seen = 0

    @override
    def before_pass(self, name: str, module: ModuleOp) -> None:
        self._before = module.clone()
        self._seen = len(self._ctx.remarks.remarks)

    @override
    def after_pass(self, name: str, module: ModuleOp) -> None:
        assert self._before is not None
        bounds = summarize(self._ctx, module, self._seen)
        for op in module.ops:
            if isinstance(op, FuncOp) and not op.is_declaration:
                own = [bound for bound in bounds if bound.function == op.sym_name.data]
                self._check_function(name, self._before, module, op, own)

    def _check_function(
        self,
        name: str,
        before: ModuleOp,
        after: ModuleOp,
        function: FuncOp,
        bounds: list[OutputBound],
    ) -> None:
        symbol = function.sym_name.data
        try:
            found = differences(self._ctx, before, after, function, self._samples)
        except UnsupportedError as error:
            print(
                f"note: numerics of @{symbol} not compared after {name}: {error.message}",
                file=sys.stderr,
            )
            return
        except QError as error:
            raise InputError(
                f"@{symbol} cannot be run after pass '{name}': {error.message}",
                where=error.where or op_where(function),
                code="numerics",
            ) from None
        for bound, worst in zip(bounds, found, strict=True):
            self._judge(name, function, bound, worst)

    def _judge(self, name: str, function: FuncOp, bound: OutputBound, worst: Difference) -> None:
        symbol, floats = function.sym_name.data, isinf(bound.steps)
        allowed = bound.real if floats else bound.steps
        if (worst.max_abs if floats else worst.max_steps) > allowed * (1 + 2.0**-20):
            raise InputError(
                f"pass '{name}' changed the results of @{symbol} by up to {worst.max_steps:g} "
                f"steps in {worst.share_differing:.2%} of the elements; "
                f"its rewrites allow {allowed:g}",
                where=op_where(function),
                code="numerics",
            )
        if not worst.is_equal:
            print(
                f"note: pass '{name}' changed the results of @{symbol} by up to "
                f"{worst.max_steps:g} steps (allowed: {allowed:g})",
                file=sys.stderr,
            )


def differences(
    ctx: QContext, before: ModuleOp, after: ModuleOp, function: FuncOp, samples: int
) -> list[Difference]:
    """The largest difference of each result of `function` over random inputs."""
    symbol = function.sym_name.data
    first, second = Interpreter(ctx, before), Interpreter(ctx, after)
    old, new = first.function(symbol).function_type, function.function_type
    takes = list(zip(old.inputs.data, new.inputs.data, strict=True))
    gives = list(zip(old.outputs.data, new.outputs.data, strict=True))
    notes = function.arg_attrs or [None] * len(takes)
    roundings = [note.data.get(ROUNDING) if note else None for note in notes]
    worst = [Difference(0.0, 0.0, 0.0, inf, None)] * len(gives)
    for seed in range(samples):
        inputs = random_inputs(first.function(symbol), seed, boundary=seed % 2 == 1)
        reference = first.run(inputs, symbol)
        given = [
            converted(ctx, x, *types, rounding=how)
            for x, types, how in zip(inputs, takes, roundings, strict=True)
        ]
        results = second.run(given, symbol)
        # Judged as the interface was; the types come the other way round.
        results = [converted(ctx, y, b, a) for y, (a, b) in zip(results, gives, strict=True)]
        for index, found in enumerate(compare_all(reference, results, old.outputs.data)):
            known = worst[index]
            if found.max_steps > known.max_steps or (known.is_equal and not found.is_equal):
                worst[index] = found
    return worst


def converted(
    ctx: QContext,
    array: NDArray[Any],
    source: Attribute,
    target: Attribute,
    *,
    rounding: Attribute | None = None,
) -> NDArray[Any]:
    """A value across an interface that a pass changed between floats and codes, with
    the rounding it recorded (default: half to even)."""
    if source == target:
        return array
    value: SSAValue = create_ssa_value(source)
    if quant_element(source) is None and quant_element(target) is not None:
        cast: Operation = QCastOp(value, target)
        if rounding is not None:
            cast.attributes[ROUNDING_KEY] = rounding
    elif quant_element(source) is not None and quant_element(target) is None:
        cast = DCastOp(value, target)
    else:
        raise UnsupportedError(f"the pass changed {source} to {target} at the interface")
    return evaluate_op(cast, [array], ctx)[0]
