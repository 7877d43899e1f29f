"""The site has every op, pass, target, command and flag, and builds without a warning."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from qdialect.passes import PASSES
from qdialect.targets.installed import get_target, list_targets
from tools.docs import reference as reference_pages
from tools.docs import site as build_docs


@cache
def page(name: str) -> str:
    return reference_pages.pages()[name]


def headings(name: str) -> list[str]:
    return re.findall(r"^#{2,3} `(.+)`$", page(name), re.M)


def section(name: str, title: str) -> str:
    found = re.search(rf"^#+ `{re.escape(title)}`$(.*?)(?=^#+ `|\Z)", page(name), re.M | re.S)
    assert found is not None, title
    return found.group(1)


@pytest.mark.parametrize("dialect", reference_pages.DIALECTS)
def test_every_op_is_described(dialect: str) -> None:
    ops = reference_pages.ops_of(dialect)
    assert len(ops) >= 4
    for op in ops:
        told = section("dialects.md", op.name)
        definition = op.get_irdl_definition()
        values = [*definition.operands, *definition.results]
        for name in (*(n for n, _ in values), *definition.properties):
            assert f"`{name}`" in told, (op.name, name)
        assert "behavior" in told, op.name


def test_every_pass_is_described_with_its_options() -> None:
    assert headings("passes.md") == sorted(PASSES)
    for entry in PASSES.values():
        told = section("passes.md", entry.name)
        assert all(f"`{name}`" in told for name, *_ in entry.options)
        assert "```mlir" in told


@pytest.mark.parametrize("name", sorted(PASSES))
def test_every_pass_shows_ir_before_and_after_or_what_it_says(name: str) -> None:
    told = section("passes.md", name)
    shown = re.search(r"^```mlir\n.*?^```\n\nbecomes\n\n^```mlir\n", told, re.M | re.S)
    assert shown or re.search(r"^ *// (remark|error): ", told, re.M)


def test_every_target_is_described() -> None:
    assert headings("targets.md") == sorted(list_targets())
    for name in list_targets():
        kernels = get_target(name).kernels
        told = section("targets.md", name).replace("\\", "")
        assert all(op in told for op in kernels)


def test_every_command_and_flag_is_described() -> None:
    commands = reference_pages.commands()
    assert headings("commands.md") == [command.name for command in commands]
    assert {"qopt optimize", "qopt-opt", "qopt-translate"} <= {c.name for c in commands}
    for command in commands:
        told = section("commands.md", command.name).replace("&#124;", "|")
        for flag in command.flags:
            assert f"`{flag.usage()}`" in told


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="no MkDocs: pip install 'qdialect[docs]'")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    assert build_docs.build(tmp_path / "site") == 0
    built = {path.name for path in (tmp_path / "site").rglob("*.html")}
    pages = {path.stem for path in (build_docs.ROOT / "docs").rglob("*.md")}
    assert {f"{name}.html" for name in pages} <= built
    assert {"passes.html", "dialects.html", "targets.html", "commands.html"} <= built
