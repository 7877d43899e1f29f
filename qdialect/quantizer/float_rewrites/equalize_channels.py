"""Make the channels of values and the weights behind them even, without data.

    %w = nn.constant dense<[[8.0], [0.125]]>
    %v = nn.constant dense<[[0.125, 8.0]]>
    %h = nn.relu (nn.fully_connected %x, %w)
    %y = nn.fully_connected %h, %v

becomes

    %w = nn.constant dense<[[1.0], [1.0]]>
    %v = nn.constant dense<[[1.0, 1.0]]>

as cross-layer equalization (Nagel et al., 2019) does, for every group of channels whose factors
constants take up (`analysis.channel_groups`); sizes are what weights say (`from_weights`).  A group
stays as it is where that gains less than a tenth of a decibel, and where a constant would overflow.

Groups that share constants change what others gain, so that goes on until none gains as much.

Contract: exact in the reals; in floats each constant that changes is rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from qdialect.analysis.channel_groups import find_groups
from qdialect.interpreter import Interpreter
from qdialect.ir.context import session
from qdialect.quantizer.float_rewrites.equalize import Equalize
from qdialect.quantizer.float_rewrites.from_weights import statistics_of_weights
from qdialect.quantizer.recipe import Recipe
from qdialect.rewrite.remarks import Remark

_ROUNDS = 8


@dataclass(frozen=True)
class EqualizeChannels(ModulePass):
    """Equalizes for storages of values and weights; see the module."""

    name = "equalize-channels"
    #: so a profile of the model before does not hold
    changes_ranges: ClassVar[bool] = True

    activations: str = "u8"
    weights: str = "i8"
    per_channel: bool = False

    def __post_init__(self) -> None:
        self.recipe()

    def recipe(self) -> Recipe:
        """The options as a recipe; ValueError."""
        return Recipe(self.activations, self.weights, per_channel=self.per_channel)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Equalize the function of a module; InputError where several are and none is `main`."""
        qctx = session(ctx)
        if not any(isinstance(each, FuncOp) for each in op.ops):
            return
        # Groups that share constants are found by themselves, so another round may gain more.
        for done in range(_ROUNDS):
            function = Interpreter(qctx, op).function()
            sizes = statistics_of_weights(function, find_groups(function, qctx), qctx)
            found = Equalize()(op, qctx, sizes, self.recipe())
            if found is not None:
                code, reason = "equalized", f"{found}, whose noise is {found.gain:.1f} dB less"
            elif done == 0:
                code, reason = "even", "no group of channels would lose less with other factors"
            else:
                break
            note = Remark("note", self.name, self.name, "", "module", "", code=code, reason=reason)
            qctx.remarks.add(note)
            if found is None:
                break
