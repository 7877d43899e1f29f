"""The documentation as a site, in one command: warnings are errors.

    python -m tools.docs site [-o build/site]

copies docs/ and the README, turns notebooks into pages, adds the reference pages (`reference.py`),
and lets MkDocs (extra `docs`) build it with the theme Material, strictly. Links to files that are
not pages become plain text: the site has pages only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

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
  name: material
  font: false
  features: [navigation.sections, navigation.footer, toc.follow, content.code.copy, search.suggest]
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
      toggle: {{icon: material/weather-sunny, name: dark}}
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
      toggle: {{icon: material/weather-night, name: light}}
plugins: [search]
markdown_extensions:
  - tables
  - toc: {{permalink: true}}
  - pymdownx.highlight: {{guess_lang: false}}
  - pymdownx.superfences
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
    for notebook in folder.rglob("*.ipynb"):
        notebook.with_suffix(".md").write_text(notebook_page(notebook), encoding="utf-8")
        notebook.unlink()
    for page in folder.rglob("*.md"):
        text = page.read_text(encoding="utf-8").replace(".ipynb)", ".md)")
        page.write_text(_without_foreign_links(text, page, folder), encoding="utf-8")


def notebook_page(path: Path) -> str:
    """The cells of a notebook as a page."""
    parts: list[str] = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    return "\n\n".join(parts) + "\n"


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
        environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        return subprocess.run([*command, "--config-file", config], env=environment).returncode


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "site")
    return build(parser.parse_args(argv).output)


if __name__ == "__main__":
    sys.exit(main())
