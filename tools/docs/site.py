"""The documentation as a site, in one command: warnings are errors.

    python -m tools.docs site [-o build/site]

copies docs/ and the README, adds the reference pages (`reference.py`), and lets MkDocs
(extra `docs`) build it, strictly. Links to files that are not pages become plain text: the
site has pages only.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.docs import reference as reference_pages

ROOT = Path(__file__).parents[2]
GENERATED = "reference/generated"
PLACE = "<!-- generated pages -->"
"""Where the index names the generated pages, which only the site has."""

CONFIG = """\
site_name: qdialect
docs_dir: {docs}
site_dir: {site}
theme:
  name: mkdocs
  highlightjs: false
  color_mode: auto
plugins: [search]
markdown_extensions:
  - tables
  - fenced_code
  - toc
  - codehilite:
      guess_lang: false
extra_css: [highlight.css]
use_directory_urls: false
validation:
  links:
    not_found: warn
    anchors: warn
    absolute_links: warn
    unrecognized_links: warn
nav:
{nav}
"""


def gather(folder: Path) -> None:
    """All pages of the site into `folder`."""
    shutil.copytree(ROOT / "docs", folder, dirs_exist_ok=True)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (folder / "readme.md").write_text(readme.replace("](docs/", "]("), encoding="utf-8")
    (folder / GENERATED).mkdir(parents=True)
    for name, text in reference_pages.pages().items():
        (folder / GENERATED / name).write_text(text, encoding="utf-8")
    index = folder / "index.md"
    links = ", ".join(
        f"[{Path(name).stem}]({GENERATED}/{name})" for name in reference_pages.pages()
    )
    index.write_text(index.read_text(encoding="utf-8").replace(PLACE, f"Here: {links}."))
    (folder / "highlight.css").write_text(_colours(), encoding="utf-8")
    for page in folder.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(_without_foreign_links(text, page, folder), encoding="utf-8")


def _colours() -> str:
    """Style of what Pygments marks in code, for light and for dark pages."""
    formatters: Any = import_module("pygments.formatters")
    light, dark = (formatters.HtmlFormatter(style=name) for name in ("default", "one-dark"))
    dark_rules = dark.get_style_defs('[data-bs-theme="dark"] .codehilite')
    plain = ".codehilite, .codehilite pre { background: transparent; }"
    return "\n".join([light.get_style_defs(".codehilite"), dark_rules, plain, ""])


def _without_foreign_links(text: str, page: Path, folder: Path) -> str:
    def shown(found: re.Match[str]) -> str:
        target = found.group(2).partition("#")[0]
        if not target or ":" in target:
            return found.group(0)
        place = (page.parent / target).resolve()
        inside = place.is_relative_to(folder.resolve()) and place.is_file()
        return found.group(0) if inside else found.group(1)

    return re.sub(r"(?<!!)\[([^\]\n]*)\]\(([^)\s]+)\)", shown, text)


def navigation(folder: Path) -> str:
    """Start pages, then by kind."""
    parts = (
        ("Start", "start"),
        ("Tutorials", "tutorial"),
        ("How to", "howto"),
        ("Concepts", "concepts"),
        ("Reference", GENERATED),
        ("Measured", "reference"),
        ("Design", "design"),
    )
    lines = ["  - Home: index.md", "  - In short: readme.md"]
    for title, place in parts:
        pages = sorted((folder / place).glob("*.md"))
        lines.append(f"  - {title}:")
        lines += [f"      - {page.relative_to(folder).as_posix()}" for page in pages]
    return "\n".join(lines)


def build(site: Path) -> int:
    """The exit code of MkDocs."""
    with tempfile.TemporaryDirectory() as scratch:
        docs = Path(scratch) / "docs"
        gather(docs)
        config = Path(scratch) / "mkdocs.yml"
        config.write_text(CONFIG.format(docs=docs, site=site.resolve(), nav=navigation(docs)))
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
        return subprocess.run([*command, "--config-file", config]).returncode


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "site")
    return build(parser.parse_args(argv).output)


if __name__ == "__main__":
    sys.exit(main())
