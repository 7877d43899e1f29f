"""Public functions and classes say what they do: how many do not may only become fewer."""

from __future__ import annotations

from importlib import import_module

from tests.support.source import Definition, part_of, public_definitions

WITHOUT: dict[str, int] = {
    "analysis": 4, "behaviors": 2, "cli": 25, "dialects": 30, "engines": 12, "formats": 15,
    "lowerings": 12, "numerics": 28, "ops": 27, "passes": 44, "pipeline": 1, "placement": 4,
    "profile": 11, "qparams": 6, "quant": 20, "quantization": 6, "reference": 2, "report": 7,
    "rewrite": 2,
}  # fmt: skip
"""Public definitions of each room that have no docstring yet. The goal is none."""


def inherits_docstring(found: Definition) -> bool:
    """Whether a method overrides one that has a docstring: `help` shows that one."""
    owner, _, method = found.name.rpartition(".")
    if not found.overrides:
        return False
    kind: object = import_module(found.module)
    for name in owner.split("."):
        kind = getattr(kind, name)
    assert isinstance(kind, type)
    bases = (vars(base).get(method) for base in kind.__mro__[1:] if base is not object)
    return any(getattr(member, "__doc__", None) for member in bases)


def without_docstring() -> list[Definition]:
    """Public definitions nobody has said a word about."""
    return [
        found
        for found in public_definitions()
        if not found.documented and not inherits_docstring(found)
    ]


def rooms() -> dict[str, list[str]]:
    """Of each room, the places of the public definitions without a docstring."""
    found: dict[str, list[str]] = {}
    for one in without_docstring():
        place = f"{one.module}:{one.line} {one.name}"
        found.setdefault(part_of(one.module), []).append(place)
    return found


def test_public_definitions_have_docstrings() -> None:
    more = {room: places for room, places in rooms().items() if len(places) > WITHOUT.get(room, 0)}
    assert more == {}
