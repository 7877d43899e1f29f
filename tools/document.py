"""Tables in documents: each between two marks of its own."""

from __future__ import annotations

from pathlib import Path


def put(path: Path, name: str, text: str) -> None:
    """Put a text in its place in a document."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    document = path.read_text(encoding="utf-8")
    if begin not in document or end not in document:
        raise SystemExit(f"{path}: no place for the table ({begin} to {end})")
    before, rest = document.split(begin, 1)
    after = rest.split(end, 1)[1]
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")
