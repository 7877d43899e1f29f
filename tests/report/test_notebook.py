"""What a notebook shows of models and comparisons."""

from __future__ import annotations

from html.parser import HTMLParser

import qdialect as qd
from qdialect.ir.context import new_context
from qdialect.report.notebook import table_html, text_html
from tests.generators.sized import GRAPHS


class Balanced(HTMLParser):
    """Elements that are open; all are closed at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check(text: str) -> None:
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []


def test_a_model_shows_counts_interface_and_text() -> None:
    model = qd.Model(GRAPHS["chain"](20, "qdq"), new_context())
    text = model._repr_html_()
    check(text)
    assert "quantize" in text and "func.func" in text and "interface" in text


def test_a_comparison_shows_every_output() -> None:
    model = qd.Model(GRAPHS["chain"](10, "qdq"), new_context())
    found = qd.diff(model, qd.optimize(model))
    text = found._repr_html_()
    check(text)
    assert all(output.name in text for output in found)


def test_names_cannot_leave_their_place() -> None:
    text = table_html("<b>", [("a",), ("<script>",)]) + text_html("</details>", "</pre>")
    check(text)
    assert "<script>" not in text


def test_a_long_text_is_cut() -> None:
    assert "600 more lines" in text_html("text", "line\n" * 1000)
