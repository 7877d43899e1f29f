"""All ops of StableHLO and CHLO that have a meaning on tensors, and the `check` ops, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation

from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.plugins.stablehlo.interpreter import (
    checks,
    chlo,
    contraction,
    control,
    elementwise,
    movement,
    quantized,
    reduction,
)
from qdialect.plugins.stablehlo.interpreter.call import Call, Function

_STABLEHLO: Mapping[str, Function] = {
    **elementwise.FUNCTIONS,
    **movement.FUNCTIONS,
    **contraction.FUNCTIONS,
    **reduction.FUNCTIONS,
    **control.FUNCTIONS,
    **quantized.FUNCTIONS,
}
_CHLO: Mapping[str, Function] = {
    **chlo.CHLO,
    **contraction.CHLO,
    **reduction.CHLO,
}

ALL: Mapping[str, Function] = {
    **{
        f"stablehlo.{name}": quantized.on_quantized(name, function)
        for name, function in _STABLEHLO.items()
    },
    **{f"chlo.{name}": quantized.on_quantized(name, function) for name, function in _CHLO.items()},
    **{f"check.{name}": function for name, function in checks.FUNCTIONS.items()},
}
"""By full name."""


def _kernel(function: Function) -> Kernel:
    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> Sequence[Array]:
        return function(Call.of(op, evaluation), operands)

    return kernel


KERNELS: Mapping[str, Kernel] = {name: _kernel(function) for name, function in ALL.items()}
"""What the interpreter runs the ops with."""
