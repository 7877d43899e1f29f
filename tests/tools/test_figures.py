"""Figures of the docs are what the code draws now, and are described for who cannot see them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="no matplotlib: pip install 'qdialect[bench]'")

from tools.docs import figures
from tools.docs.figure_style import DARK, LIGHT, ROLES


def words(text: str) -> list[str]:
    """All that a figure says, in order."""
    return [" ".join(found.split()) for found in re.findall(r"<text[^>]*>(.*?)</text>", text, re.S)]


@pytest.mark.parametrize("name", figures.FIGURES)
def test_a_figure_is_what_the_code_draws(name: str) -> None:
    draw, title = figures.FIGURES[name]
    kept = (figures.PAGES / f"{name}.svg").read_text(encoding="utf-8")
    drawn = figures.svg(draw(), title)
    assert words(drawn) == words(kept), f"python -m tools.docs figures {name}"
    assert f"<title>{title}</title>" in kept and "prefers-color-scheme: dark" in kept


def test_every_figure_is_shown_and_described() -> None:
    pages = "".join(path.read_text("utf-8") for path in sorted(figures.PAGES.glob("*.md")))
    shown = dict(re.findall(r"!\[([^\]]+)\]\((\w+)\.svg\)", pages))
    assert sorted(shown.values()) == sorted(figures.FIGURES)
    assert all(len(text) > 40 for text in shown)
    assert {path.stem for path in Path(figures.PAGES).glob("*.svg")} == set(figures.FIGURES)


def test_every_role_has_two_colours() -> None:
    assert set(LIGHT) == set(DARK) == set(ROLES)
    assert len(set(LIGHT.values())) == len(ROLES)
