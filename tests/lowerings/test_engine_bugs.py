"""Bugs of engines (`support/engine_bugs.py`): each is still there, and the page says so."""

from __future__ import annotations

import pytest

from tests.support import engine_bugs


@pytest.mark.parametrize("bug", engine_bugs.BUGS, ids=lambda bug: bug.name)
def test_it_is_still_there(bug: engine_bugs.Bug) -> None:
    if absent := engine_bugs.missing(bug):
        pytest.skip(f"needs {absent[0]} (qopt engines install {bug.environment})")
    state, said = engine_bugs.observe(bug)
    assert state != "fixed", f"fixed: remove the workaround ({bug.around})"
    assert state == "present", said


def test_the_page_is_the_table() -> None:
    assert engine_bugs.PAGE.read_text(encoding="utf-8") == engine_bugs.page()
