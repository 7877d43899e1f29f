"""The targets that installed packages bring, by entry point."""

from __future__ import annotations

from qdialect.errors import QError, UsageError, culprit, did_you_mean
from qdialect.plugin import entries, named
from qdialect.targets.base import Target

GROUP = "qdialect.targets"


def _installed() -> dict[str, str]:
    return dict(entries(GROUP))


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
    return _loaded(name, found[name])


def _loaded(name: str, where: str) -> Target:
    try:
        target = named(where)
    except QError as error:
        raise QError(
            f"target {_whose(name)} cannot be loaded: {error.message}", code="bad-plugin"
        ) from error
    except (Exception, SystemExit) as error:
        raise QError(
            f"target {_whose(name)} ({where}) cannot be loaded: {culprit(error)}",
            code="bad-plugin",
        ) from error
    if not isinstance(target, Target):
        raise QError(
            f"target {_whose(name)}: '{where}' is not a qdialect Target",
            code="bad-plugin",
        )
    return target


def _whose(name: str) -> str:
    """Its name, and that of the package, which is read from a file."""
    from importlib.metadata import entry_points

    (point,) = entry_points(group=GROUP, name=name)
    package = "" if point.dist is None else f" of package '{point.dist.name}'"
    return f"'{name}'{package}"


def summaries() -> list[tuple[str, str]]:
    """Name and summary of all installed targets; of one that cannot be loaded, the reason."""
    rows: list[tuple[str, str]] = []
    for name, where in sorted(_installed().items()):
        try:
            rows.append((name, _loaded(name, where).summary))
        except QError as error:
            rows.append((name, f"({error.message})"))
    return rows
