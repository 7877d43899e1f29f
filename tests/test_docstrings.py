"""Public functions and classes say what they do."""

from __future__ import annotations

from tests.support.source import without_docstring


def test_public_definitions_have_docstrings() -> None:
    assert without_docstring() == {}
