"""Names use the field's words; the list of retired ones is in `support/words.py`."""

from __future__ import annotations

import re

import pytest

from tests.support import words


def test_no_retired_word_is_in_a_name() -> None:
    assert [str(found) for found in words.check()] == []


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("hand_on", ["hand_on"]),
        ("_HandOnRule2", ["hand_on"]),
        ("HEIRS", ["heirs"]),
        ("their_sheirs", []),
        ("drifting", []),
        ("on_hand", []),
        ("held_type", ["held"]),
        ("HELD_OUT", []),
    ],
)
def test_words_of_names(name: str, found: list[str]) -> None:
    assert words.retired_in(name) == found


def test_names_of_python_are_all_found() -> None:
    source = "import a as b\nclass C:\n    d: int\ndef e(f, *, g=1):\n    h.i(j=2)\n"
    assert {name for _, name in words.names_of_python(source)} >= set("bCdefghij")


def test_only_names_count_on_pages() -> None:
    text = "its drift is `a_drift`\n```console\n`drift`\n```\n"
    assert list(words.names_of_page(text)) == [(1, "a_drift")]


def test_the_glossary_is_a_screen_and_says_where_terms_are() -> None:
    page = words.ROOT / "docs" / "concepts" / "glossary.md"
    rows = re.findall(r"^\| (.+?) \| .+ \| `(.+)` \|$", page.read_text("utf-8"), re.M)
    assert 30 < len(rows) < 50
    missing = [place for _, place in rows if not (words.ROOT / place).exists()]
    assert missing == []
    terms = [re.sub(r"\W+", "_", term.lower()) for term, _ in rows]
    assert [term for term in terms if words.retired_in(term)] == []
