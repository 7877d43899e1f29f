"""How a model is to be quantized: storages, symmetry, range methods, what stays float."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from qdialect.algebra.qparams import Storage
from qdialect.algebra.weight_blocks import SCALE_TYPES
from qdialect.quantizer.block_formats import (
    MICROSCALED,
    MICROSCALED_BLOCK,
    ONLY_IN_BLOCKS,
    integer_storage,
)
from qdialect.quantizer.profile.ranges import METHODS, Method, RangeChoice
from qdialect.quantizer.profile.scheme import SYMMETRIES, Scheme, Symmetry
from qdialect.targets.base import Target

ACTIVATIONS = ("u8", "i8", "i16", "u16")
WEIGHTS = ("i8", "u8", "i4", "u4", "i3", "u3", "i16", *ONLY_IN_BLOCKS)
TABLES = ("i8", "i4", "u4")
WEIGHT_METHODS = ("mse", "minmax")
UNSEEN = 100
"""Of how many samples that no range is of the extremes shall fit."""


class Precision(Enum):
    """What an op computes with: a state of the precision problem."""

    FLOAT = "float"
    CODES = "codes"
    #: floats, with the input quantized as the model runs, and weights in codes (`dynamic`)
    DYNAMIC = "dynamic"
    #: floats, with weights in codes (`blocks`)
    WEIGHTS = "weights-only"


@dataclass(frozen=True)
class Recipe:
    """The choices of `qopt quantize`; the defaults are meant to need no changes.

    `max_steps`: an op that may turn one step of an operand into more steps of its result
    than this amplifies errors, and stays float (log, sqrt, a division, a steep softmax);
    infinite: none does, as for a target without floats (`Recipe.of_target`).
    `unseen`: of how many samples to come ranges hold the extremes (`ranges.with_head_room`).
    `weights_only`: products with a matrix of which only the weights become codes, named as in
    `keep_float`, or `all`; `block`: with a scale for every so many numbers that are summed (0: as
    many as suit the target). A block without names is for all, and so are weights that are stored
    in blocks only (`block_formats`), whose scales are of `scale_type`.
    `tables`: integers of tables of which rows are picked; of 4 bits in blocks (`tables`).
    `dynamic`: products that quantize their input as they run, named as in `keep_float`, or `all`.
    `caches`: what comes in as an argument, gets elements joined and is returned (`analysis.caches`)
    is on codes all the way, with one grid at both ends.
    `lower`: composites that are not quantized whole are written as their pieces.
    `correct_bias`: where there is data (`bias_correction`).
    `plan`: the state of each op, by its number in the function (`precision`); None: whatever can
    be quantized is, along with contractions.
    """

    activations: str = "u8"
    weights: str = "i8"
    scheme: Symmetry = "asymmetric"
    per_channel: bool = True
    calibration: Method = "minmax"
    percentile: float = 99.99
    weight_ranges: str = "mse"
    max_steps: float = 16.0
    unseen: int = UNSEEN
    correct_bias: bool = True
    lower: bool = False
    block: int = 0
    scale_type: str = "f32"
    tables: str = "i8"
    dynamic: frozenset[str] = field(default_factory=frozenset[str])
    weights_only: frozenset[str] = field(default_factory=frozenset[str])
    caches: bool = False
    keep_float: frozenset[str] = field(default_factory=frozenset[str])
    plan: Mapping[int, Precision] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for what, value, known in (
            ("activations", self.activations, ACTIVATIONS),
            ("weights", self.weights, WEIGHTS),
            ("scheme", self.scheme, SYMMETRIES),
            ("calibration", self.calibration, METHODS),
            ("weight ranges", self.weight_ranges, WEIGHT_METHODS),
            ("scale type", self.scale_type, SCALE_TYPES),
            ("tables", self.tables, TABLES),
        ):
            if value not in known:
                raise ValueError(f"{what}: one of {', '.join(known)}, not '{value}'")
        if self.block < 0 or self.block == 1:
            raise ValueError(f"a block has 2 numbers or more, not {self.block}")
        if self.weights in MICROSCALED and self.block not in (0, MICROSCALED_BLOCK):
            raise ValueError(
                f"{self.weights} has blocks of {MICROSCALED_BLOCK}, not of {self.block}"
            )
        if self.weights in MICROSCALED and self.scale_type not in ("f32", "f8E8M0FNU"):
            raise ValueError(f"{self.weights} has scales of f8E8M0FNU, not {self.scale_type}")
        if not self.max_steps > 0:
            raise ValueError(f"max steps must be above 0, but is {self.max_steps}")

    @property
    def integer_weights(self) -> Storage:
        """The integers of weights of products that are summed in integers."""
        return integer_storage("i8" if self.weights in ONLY_IN_BLOCKS else self.weights)

    @property
    def only_weights(self) -> frozenset[str]:
        """The products of which only the weights become codes."""
        every = bool(self.block) or self.weights in ONLY_IN_BLOCKS
        return self.weights_only or frozenset({"all"} if every else ())

    @property
    def needs_no_ranges(self) -> bool:
        """Whether ops are asked to be in states that need no range of a profile."""
        return bool(self.only_weights or self.dynamic) and not self.caches

    @property
    def asks_for_codes(self) -> bool:
        """Whether something is to be codes however long that takes: weights, for their size, or
        caches, for theirs."""
        return bool(self.only_weights) or self.caches

    @staticmethod
    def of_target(target: Target) -> Recipe:
        """What suits a target: its own integers, and no op left float where it has no floats."""
        if target.floats:
            return Recipe(target.activations)
        return Recipe(target.activations, max_steps=inf, lower=True)

    def activation_scheme(self, expressed: str) -> Scheme:
        """Storage and symmetry of activations that express a float type (`f32`)."""
        return Scheme.of(self.activations, self.scheme, expressed)

    def choice(self, scheme: Scheme) -> RangeChoice:
        """How ranges of values are chosen for a scheme."""
        return RangeChoice(
            self.calibration, self.percentile, levels=scheme.levels, unseen=self.unseen
        )
