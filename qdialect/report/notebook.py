"""What a notebook shows: small tables that need no script and take the notebook's colours."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_CELL = "text-align:left;padding:0.1em 1em 0.1em 0"
_LINES = 400
"""Lines of IR shown; a notebook keeps them in its file."""


def table_html(caption: str, rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its heading."""
    lines = [f'<table><caption style="{_CELL}"><b>{escape(caption)}</b></caption>']
    for number, row in enumerate(rows):
        tag = "td" if number else 'th scope="col"'
        cells = "".join(f'<{tag} style="{_CELL}">{escape(cell)}</{tag.split()[0]}>' for cell in row)
        lines.append(f"<tr>{cells}</tr>")
    return "\n".join([*lines, "</table>"])


def text_html(title: str, text: str) -> str:
    """A long text that is closed at first, cut where it is very long."""
    lines = text.splitlines()
    shown = "\n".join(lines[:_LINES])
    if len(lines) > _LINES:
        shown += f"\n... {len(lines) - _LINES} more lines"
    return f"<details><summary>{escape(title)}</summary><pre>{escape(shown)}</pre></details>"
