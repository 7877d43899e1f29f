"""`--verify-numerics`: after each pass, the interpreter before against after.

A pass whose rewrites all were exact must not change one bit.  Rewrites with a weaker
contract add up to a budget of quantization steps; one that may remove a clip or
choose other qparams lifts the limit, and then the difference is only told.
"""

from __future__ import annotations

import math
import sys
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
from qdialect.rewrite.remarks import Remark
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
        allowed = allowed_steps(self._ctx.remarks.remarks[self._seen :])
        for op in module.ops:
            if isinstance(op, FuncOp) and not op.is_declaration:
                self._check_function(name, self._before, module, op, allowed)

    def _check_function(
        self, name: str, before: ModuleOp, after: ModuleOp, function: FuncOp, allowed: float
    ) -> None:
        symbol = function.sym_name.data
        try:
            worst = worst_difference(self._ctx, before, after, function, self._samples)
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
        if worst.max_steps > allowed:
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


def allowed_steps(remarks: list[Remark]) -> float:
    """How far results may move after the rewrites these remarks tell of."""
    total = 0.0
    for remark in remarks:
        if remark.kind != "fired" or remark.contract == "exact":
            continue
        if remark.contract in ("saturation", "relaxed"):
            return math.inf
        total += max(remark.steps, 1.0)
    return total


def worst_difference(
    ctx: QContext, before: ModuleOp, after: ModuleOp, function: FuncOp, samples: int
) -> Difference:
    """The largest difference of any result of `function` over random inputs."""
    symbol = function.sym_name.data
    first, second = Interpreter(ctx, before), Interpreter(ctx, after)
    old, new = first.function(symbol).function_type, function.function_type
    takes = list(zip(old.inputs.data, new.inputs.data, strict=True))
    gives = list(zip(old.outputs.data, new.outputs.data, strict=True))
    notes = function.arg_attrs or [None] * len(takes)
    roundings = [note.data.get(ROUNDING) if note else None for note in notes]
    worst = Difference(0.0, 0.0, 0.0, math.inf, None)
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
        for found in compare_all(reference, results, old.outputs.data):
            if found.max_steps > worst.max_steps or (worst.is_equal and not found.is_equal):
                worst = found
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
