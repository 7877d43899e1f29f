"""A real browser without a window, for pages that we write."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

COMMANDS = ("chromium", "chromium-browser", "google-chrome")


def missing() -> str:
    """Why there is no browser to test with, or nothing."""
    if find_spec("playwright") is None:
        return "no playwright: pip install playwright"
    if command() is None:
        return f"no browser: none of {', '.join(COMMANDS)} is on PATH"
    return ""


def command() -> str | None:
    return next(filter(None, map(shutil.which, COMMANDS)), None)


@contextmanager
def opened(
    page_file: Path, scheme: str = "light", width: int = 1400
) -> Iterator[tuple[Any, list[str]]]:
    """The page in a browser, shown, and what went wrong in it so far."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=command(), args=["--no-sandbox"])
        context = browser.new_context(
            color_scheme=scheme,  # pyright: ignore[reportArgumentType]
            viewport={"width": width, "height": 1300},
            offline=True,
        )
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else 0)
        page.on(
            "request",
            lambda asked: (
                None
                if asked.url.startswith(("file:", "data:"))
                else problems.append(f"asked for {asked.url}")
            ),
        )
        page.goto(page_file.as_uri())
        page.wait_for_selector("html[data-ready]", timeout=60_000)
        yield page, problems
        browser.close()
