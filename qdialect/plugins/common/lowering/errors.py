"""What a lowering cannot express."""

from __future__ import annotations


class Unlowerable(Exception):
    """An op, type or shape that the dialect lowered to has nothing for.

    `code` for programs, `reason` for people, `instead` the nearest form that it has.
    """

    def __init__(self, code: str, reason: str, instead: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.instead = instead
