"""The targets that installed packages bring, by entry point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.errors import QError, UsageError, culprit, did_you_mean
from qdialect.targets.base import Target

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "qdialect.targets"


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
        raise UsageError(
            f"unknown target '{name}'{did_you_mean(name, found)}",
            code="unknown-target",
            notes=(f"installed targets: {', '.join(sorted(found))}",),
        )
    return _loaded(found[name])


def _loaded(point: EntryPoint) -> Target:
    try:
        target = point.load()
    except QError as error:
        raise QError(
            f"target {_whose(point)} cannot be loaded: {error.message}", code="bad-plugin"
        ) from error
    except (Exception, SystemExit) as error:
        raise QError(
            f"target {_whose(point)} ({point.value}) cannot be loaded: {culprit(error)}",
            code="bad-plugin",
        ) from error
    if not isinstance(target, Target):
        raise QError(
            f"target {_whose(point)}: '{point.value}' is not a qdialect Target",
            code="bad-plugin",
        )
    return target


def _whose(point: EntryPoint) -> str:
    """Its name, and that of the package, which is read from a file."""
    package = "" if point.dist is None else f" of package '{point.dist.name}'"
    return f"'{point.name}'{package}"


def summaries() -> list[tuple[str, str]]:
    """Name and summary of all installed targets; of one that cannot be loaded, the reason."""
    rows: list[tuple[str, str]] = []
    for name, point in sorted(_installed().items()):
        try:
            rows.append((name, _loaded(point).summary))
        except QError as error:
            rows.append((name, f"({error.message})"))
    return rows
