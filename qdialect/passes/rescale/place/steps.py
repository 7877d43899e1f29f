"""Steps, which are rescales as values see them, and ops that can be before or behind some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.ir import Operation

from qdialect.behaviors import Behavior
from qdialect.numerics.contract import EXACT, Contract
from qdialect.numerics.rounding import Rounding
from qdialect.passes.rescale.choice_constants import Counterpart
from qdialect.qparams import QParams
from qdialect.quant import RescaleOp

#: how many rescales may move past one place, each way
DEPTH = 3


class Step(NamedTuple):
    """A rescale as seen from a value: the qparams on its far side, and how it rounds.

    `seen` are these qparams with the bounds that codes there are known to keep.  `origin`
    is the rescale as it stands, which gives a moved one its key and location.
    """

    qparams: QParams
    rounding: Rounding
    seen: QParams
    origin: RescaleOp
    #: a number for qparams, rounding and bounds: steps that have the same are alike
    key: int

    @property
    def inside(self) -> bool:
        """Whether codes on the far side are known to keep their bounds."""
        return is_inside(self.qparams, self.seen)


class StepKeys(dict[tuple[QParams, Rounding, QParams], int]):
    """The numbers of steps (`Step.key`)."""


@dataclass
class Labels:
    """The qparams of a commuting op in one state; `legal` unless it cannot have it."""

    operands: list[QParams]
    results: list[QParams]
    legal: bool = True
    #: for an op that chooses: its constant operands, by number
    constants: dict[int, Counterpart] = field(default_factory=dict[int, Counterpart])
    #: what being in this state rather than in state 0 changes
    contract: Contract = EXACT


@dataclass
class Commuting:
    """A commuting op: `labels[k]` for its states k, state 0 included."""

    op: Operation
    behavior: Behavior
    tied: list[int]
    labels: dict[int, Labels] = field(default_factory=dict[int, Labels])
    #: whether one scale for all tied operands is that of all results, whatever it is
    plain: bool = False
    #: the constants it compares with
    levels: Sequence[float] = ()
    #: whether its results hold elements of the tied operands only, and all of them may be there
    inert: bool = False

    @property
    def lowest(self) -> int:
        return min(self.labels)

    @property
    def highest(self) -> int:
        return max(self.labels)


def is_inside(params: QParams, seen: QParams) -> bool:
    """Whether codes within the bounds of `seen` are within those of `params`."""
    own, held = params.storage, seen.storage
    return own.min <= held.min and held.max <= own.max


def one_scale(params: Sequence[QParams]) -> bool:
    """Whether all are the same, and per tensor."""
    first = params[0]
    return first.is_per_tensor and all(q is first or q == first for q in params)


def movable(op: Operation) -> RescaleOp | None:
    """`op` if it is a rescale whose place may be chosen."""
    # Asked of every op; for what it is not, `isinstance` is slow.
    if op.name != RescaleOp.name or not isinstance(op, RescaleOp) or op.fixed_point is not None:
        return None
    return op if op.rounding is not Rounding.GEMMLOWP else None
