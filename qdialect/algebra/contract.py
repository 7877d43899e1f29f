"""Numerics contracts: how much a rewrite may change what a program computes.

The classes are those of docs/design/001-architecture.md, from the strongest to
the weakest; a user names the weakest that may fire.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from qdialect.errors import UsageError


class Numerics(IntEnum):
    """Contract classes, ordered: a larger one allows more change."""

    #: same bits for every input
    EXACT = 0
    #: the same up to which way a tie rounds
    TIES = 1
    #: at most k output steps; nothing that was clipped is now unclipped
    BOUNDED = 2
    #: a clip is removed or added
    SATURATION = 3
    #: a quantization is removed, or new qparams are chosen
    RELAXED = 4

    @staticmethod
    def parse(text: str) -> Numerics:
        """The class named `text`; ValueError lists the names."""
        try:
            return Numerics[text.upper()]
        except KeyError:
            names = ", ".join(str(level) for level in Numerics)
            raise ValueError(f"unknown numerics level '{text}' (one of {names})") from None

    def __str__(self) -> str:
        return self.name.lower()


def level_named(text: str) -> Numerics:
    """The level a user names; UsageError (`unknown-level`) if it is none."""
    try:
        return Numerics.parse(text)
    except ValueError as error:
        raise UsageError(str(error), code="unknown-level") from None


@dataclass(frozen=True)
class Contract:
    """What one application of a rewrite may change.

    `steps` is the largest change in output quantization steps (`BOUNDED` and
    weaker, infinite if not known); `note` says which condition gave the class.
    `by_kernels`: it was decided with the arithmetic of the kernels that ops name, not only for
    real functions that are rounded once.
    """

    level: Numerics
    steps: float = 0.0
    note: str = ""
    by_kernels: bool = False

    def __str__(self) -> str:
        return f"bounded({self.steps:g})" if self.level is Numerics.BOUNDED else str(self.level)


EXACT = Contract(Numerics.EXACT)
