"""What a compilation target can do, as data plus hooks.

A vendor ships an object of this class (or of a subclass that overrides the
hooks) under the entry-point group `qdialect.targets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from qdialect.errors import QError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.metadata import EntryPoint

    from xdsl.ir import Attribute, Operation

    from qdialect.behaviors import Behavior
    from qdialect.qparams import QParams

GROUP = "qdialect.targets"


@dataclass(frozen=True)
class Target:
    """A target: name, what it runs, what things cost.

    `behaviors` override or extend the op declarations for this target.
    """

    name: str
    summary: str
    behaviors: tuple[Behavior, ...] = ()
    #: composite ops the target runs whole (not lowered)
    keep_whole: frozenset[str] = frozenset()
    #: extra passes at the named points of a pipeline (see `transforms.pipelines`)
    extensions: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def refuses(
        self, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
    ) -> str | None:
        """Why the target cannot run an op like `op` on these types, or None.

        Passes ask before they commit: `op` gives name and properties, and the types
        are those it would have.
        """
        return None

    def rescale_price(self, source: QParams, result: QParams) -> float:
        """Relative cost per element of one rescale; infinity if impossible."""
        return 1.0

    def should_lower(self, op: Operation) -> bool:
        """Whether a composite op is to be lowered into its components."""
        return op.name not in self.keep_whole


def _installed() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # 10 ms, and most runs name no target

    return {point.name: point for point in entry_points(group=GROUP)}


def list_targets() -> list[str]:
    """Names of all installed targets."""
    return sorted(_installed())


def get_target(name: str) -> Target:
    """The installed target `name`; UsageError (`unknown-target`) if there is none."""
    found = _installed()
    if name not in found:
        close = get_close_matches(name, found, 1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise UsageError(
            f"unknown target '{name}'{hint}",
            code="unknown-target",
            notes=(f"installed targets: {', '.join(sorted(found))}",),
        )
    try:
        target = found[name].load()
    except Exception as error:
        raise QError(
            f"target '{name}' ({found[name].value}) cannot be loaded: {error}",
            code="bad-plugin",
        ) from error
    if not isinstance(target, Target):
        raise QError(f"'{found[name].value}' is not a qdialect Target", code="bad-plugin")
    return target
