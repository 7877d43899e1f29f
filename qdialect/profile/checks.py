"""JSON values taken one by one: each is what it should be, or an error says where it is not."""

from __future__ import annotations

import json
from typing import Any, NoReturn, cast

from qdialect.errors import InputError, Where

Json = dict[str, Any]

LARGEST = (1 << 63) - 1


class Checks:
    """Checks everything it takes; `at` is where it is, for errors."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.at: list[str] = []

    def fail(self, message: str, code: str = "bad-profile") -> NoReturn:
        place = f"{': '.join(self.at)}: " if self.at else ""
        raise InputError(f"{place}{message}", where=Where(self.file), code=code)

    def object_of(self, pairs: list[tuple[str, Any]]) -> Json:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen = set[str]()
            twice = next(n for n, _ in pairs if n in seen or seen.add(n))
            self.fail(f"'{twice}' is there twice", "duplicate-key")
        for text in (*found, *(v for v in found.values() if isinstance(v, str))):
            if not _is_unicode(text):
                self.fail(f"{text!r} is not Unicode")
        return found

    def constant(self, name: str) -> NoReturn:
        self.fail(f"{name} is not a number here")

    def mapping(self, name: str, value: Any, fields: tuple[str, ...] | None = None) -> Json:
        if not isinstance(value, dict):
            self.fail(f"{name}: is not an object")
        found = cast(Json, value)
        if fields is not None:
            self.fields(found, fields, f"{name}: ")
        return found

    def fields(self, value: Json, fields: tuple[str, ...], prefix: str = "") -> None:
        for name in fields:
            if name not in value:
                self.fail(f"{prefix}'{name}' is missing")
        for name in value:
            if name not in fields:
                self.fail(f"{prefix}'{name}' is not known")

    def integer(self, name: str, value: Any, least: int = 0) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LARGEST:
            self.fail(f"{name}: {shown(value)} is not a count")
        return value

    def array(self, name: str, value: Any, length: int | None = None) -> list[Any]:
        if not isinstance(value, list) or length not in (None, len(cast("list[Any]", value))):
            of = "" if length is None else f" of {length}"
            self.fail(f"{name}: {shown(value)} is not a list{of}")
        return cast("list[Any]", value)


def _is_unicode(text: str) -> bool:
    """Not so if half of a surrogate pair was written with an escape: it has no UTF-8."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def shown(value: Any) -> str:
    """A value for an error: not all of a long one."""
    try:
        text = json.dumps(value)
    except RecursionError:
        return "[...]"
    return text if len(text) < 40 else text[:36] + " ..."
