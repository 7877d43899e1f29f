"""Let ops be real functions that are rounded once where they name LiteRT's kernels.

A model from a TFLite file says whose kernel each op is (`nn.kernel`), and its codes are what that
kernel computes. Other runtimes have other kernels, so before it is written for one the marks go,
each under the contract that is true of it:

    exact     convolutions and matrix products of XNNPACK, which round as ONNX Runtime's kernels
              do (they keep a mark, for those); its casts, a quantize as one that multiplies by
              the reciprocal of the scale
    ties      products
    bounded   the others: fixed point, by so many steps as was measured

For example, at `bounded`,

    %0 = nn.add %x, %y {nn.kernel = "litert-xnn"} : (!x, !y) -> !z

becomes

    %0 = nn.add %x, %y : (!x, !y) -> !z
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from qdialect.algebra.contract import EXACT, Contract, Numerics, level_named
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.index import every_op
from qdialect.ir.context import session
from qdialect.ir.ops.base import KERNEL, kernels_of
from qdialect.ir.quant import ROUNDING_KEY, DCastOp, QCastOp, quant_element
from qdialect.rewrite.kernel_marks import distance
from qdialect.rewrite.remarks import fired_remark

_RECIPROCAL = StringAttr(Rounding.RECIPROCAL.value)
_AS_ONNX_RUNTIME = frozenset(("nn.conv1d", "nn.conv2d", "nn.fully_connected", "nn.matmul"))
"""What XNNPACK computes as ONNX Runtime's integer kernels do: float32(sum) float32(M), rounded
half to even (no code differed, of 50 176)."""


def contract(op: Operation) -> Contract:
    """What it changes that a marked op is a real function."""
    kernels = kernels_of(op)
    if isinstance(op, DCastOp | QCastOp) and kernels == "litert-xnn":
        return EXACT
    if isinstance(op, DCastOp) and kernels == "litert-ref":
        return EXACT
    if kernels == "litert-xnn" and op.name in _AS_ONNX_RUNTIME:
        return EXACT
    return replace(distance(op), note=f"the kernels of {kernels} round in ways of their own")


@dataclass(frozen=True)
class ReleaseKernels(ModulePass):
    """Marks of LiteRT's kernels go, as far as `numerics` allows; see the module."""

    name = "release-kernels"
    counts_changes: ClassVar[bool] = True

    numerics: str = "exact"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        level, qctx = level_named(self.numerics), session(ctx)
        for each in every_op(op):
            if kernels_of(each) is None:
                continue
            found = contract(each)
            if found.level > level:
                reason = f"would be {found} ({found.note}), but only {level} is allowed"
                qctx.remarks.at(each, "refused", self.name, "numerics", reason)
                continue
            qctx.remarks.add(fired_remark(self.name, self.name, each, found))
            number = len(qctx.remarks.remarks) - 1
            if each.name in _AS_ONNX_RUNTIME and found.level is Numerics.EXACT:
                each.attributes[KERNEL] = UnitAttr()
            else:
                del each.attributes[KERNEL]
            if isinstance(each, QCastOp) and found.level is Numerics.EXACT:
                each.attributes[ROUNDING_KEY] = _RECIPROCAL
            for result in each.results:
                if quant_element(result.type) is not None or found.level is not Numerics.EXACT:
                    qctx.error_bounds.record(result, number, found)
            qctx.changes += 1
