"""What every rewrite of a float model is: a choice for each group of channels, made on statistics,
and a change of the module that keeps its function.

The choice is made first, and says what it would bring (`Foretold`); whoever wants it then has it
applied.  So rewrites are compared before any is made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from qdialect.algebra.channel_transforms import Factors
from qdialect.interpreter import Interpreter
from qdialect.ir.context import QContext
from qdialect.quantizer.float_rewrites.apply import as_many_as_fit
from qdialect.quantizer.float_rewrites.statistics import Statistics
from qdialect.quantizer.float_rewrites.terms import Costs
from qdialect.quantizer.recipe import Recipe


@dataclass(frozen=True)
class Rewritten:
    """What a rewrite changed: how many groups of how many channels, and by how many dB it expects
    the noise of the outputs to be less; `keep_float` are keys of ops that it added and that have
    to stay float."""

    groups: int
    channels: int
    gain: float
    keep_float: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.channels} channels in {self.groups} groups"


class Choice(Protocol):
    """What would be done to a group of so many `channels`, and what is lost in it as it is and
    afterwards, in the units of `Costs`."""

    @property
    def channels(self) -> int:
        """How many."""
        ...

    @property
    def before(self) -> float:
        """As it is."""
        ...

    @property
    def after(self) -> float:
        """After the change."""
        ...


@dataclass(frozen=True)
class ByFactors:
    """Of a choice of factors of channels, what is lost without and with them (`Choice`)."""

    factors: Factors

    @property
    def before(self) -> float:
        return self.factors.before

    @property
    def after(self) -> float:
        return self.factors.after


C = TypeVar("C", bound=Choice)


def gain_of(choice: Choice) -> float:
    """By how many dB less is lost in the group."""
    return decibels_less(choice.before, choice.after)


def decibels_less(before: float, after: float) -> float:
    """10 log10(before / after); 0 unless both are above 0."""
    return float(10 * np.log10(before / after)) if before > 0 and after > 0 else 0.0


@dataclass(frozen=True)
class Foretold(Generic[C]):
    """What a rewrite would do to a module that is still as it was; `total` is what is lost in all
    of it."""

    rewrite: FloatRewrite[C]
    chosen: Sequence[C]
    costs: Costs
    total: float

    @property
    def gain(self) -> float:
        """By how many dB less would be lost in all."""
        less = sum(each.before - each.after for each in self.chosen)
        return decibels_less(self.total, self.total - less)

    def apply(self) -> Rewritten | None:
        """Change the module, where no constant would overflow; None where all would."""
        keys: set[str] = set()

        def change(chosen: Sequence[C], _: QContext) -> None:
            keys.update(self.rewrite.change(chosen, self.costs))

        kept = as_many_as_fit(change, self.chosen, self.costs.ctx)
        done = replace(self, chosen=[self.chosen[number] for number in kept])
        if not done.chosen:
            return None
        channels = sum(each.channels for each in done.chosen)
        return Rewritten(len(done.chosen), channels, done.gain, frozenset(keys))


def costs_of(
    module: ModuleOp, ctx: QContext, statistics: Statistics, recipe: Recipe
) -> tuple[FuncOp, Costs]:
    """The function of a module, and what rounding costs in it by statistics of it."""
    function = Interpreter(ctx, module).function()
    importance = statistics.importance_of(function)
    return function, Costs(ctx, statistics.of(function), recipe, importance=importance)


class FloatRewrite(ABC, Generic[C]):
    """Changes a float module such that its function stays, and less is lost when it is
    quantized. `name` is what it is called in reports and options; groups that gain fewer than
    `worth` dB stay as they are."""

    name: str
    worth: float

    @abstractmethod
    def choices(self, function: FuncOp, costs: Costs) -> Iterable[C]:
        """What could be done, group by group."""

    @abstractmethod
    def change(self, chosen: Sequence[C], costs: Costs) -> Iterable[str]:
        """Change the module; the keys of ops that were added and have to stay float.
        NotFiniteError where a constant would overflow, before anything is changed."""

    def foretold(
        self, module: ModuleOp, ctx: QContext, statistics: Statistics, recipe: Recipe
    ) -> Foretold[C] | None:
        """What is worth doing to a module by statistics of it, for what the recipe makes of it;
        None where nothing is."""
        function, costs = costs_of(module, ctx, statistics, recipe)
        chosen = [each for each in self.choices(function, costs) if gain_of(each) >= self.worth]
        return Foretold(self, chosen, costs, costs.of_all()) if chosen else None

    def __call__(
        self, module: ModuleOp, ctx: QContext, statistics: Statistics, recipe: Recipe
    ) -> Rewritten | None:
        """Change `module` in place, by statistics of it as it is; None where nothing is worth
        it."""
        found = self.foretold(module, ctx, statistics, recipe)
        return None if found is None else found.apply()


AnyRewrite = FloatRewrite[Any]
