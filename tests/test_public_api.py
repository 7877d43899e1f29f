"""docs/reference/api.md is the list of what stays: it is what the code has, and all that our
examples use; a name that goes warns."""

from __future__ import annotations

import inspect
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import qdialect
from qdialect.cli.command_new_target import TEMPLATE
from qdialect.deprecation import MOVED, Renamed, current_name, warn_deprecated
from tests.support.public_names import ROOT, listed, unlisted

NAMES = [(module, name) for module, names in listed().items() for name in sorted(names)]
EXAMPLES = sorted((*TEMPLATE.rglob("*.py"), *(ROOT / "docs" / "examples").glob("*.py")))


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_listed_name_exists_and_says_what_it_is(module: str, name: str) -> None:
    found = getattr(import_module(module), name, None)
    if found is None:
        found = import_module(f"{module}.{name}")
    if inspect.isclass(found) or inspect.isfunction(found) or inspect.ismodule(found):
        assert inspect.getdoc(found)


def test_what_a_package_exports_is_listed() -> None:
    public = listed()
    for module in ("qdialect", "qdialect.ir.behaviors"):
        assert public[module] == set(import_module(module).__all__), module
    for module, names in public.items():
        exported = getattr(import_module(module), "__all__", None)
        if exported is not None and module != "qdialect.algebra":
            assert names <= set(exported), module


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_use_nothing_else(path: Path) -> None:
    assert unlisted(path.read_text("utf-8")) == []


def test_a_name_that_is_not_listed_is_noticed() -> None:
    source = "import qdialect as qd\nfrom qdialect.rewrite.driver import Driver\nqd.load, qd.api\n"
    assert unlisted(source) == ["qdialect.rewrite.driver.Driver", "qdialect.api"]


# -- names that go ----------------------------------------------------------------------


def test_a_renamed_name_works_and_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qdialect, "_RENAMED", {"read": Renamed("load", since="0.2")})
    expected = "^qdialect.read is deprecated since qdialect 0.2; use qdialect.load$"
    for _ in range(2):  # the first reads the new name, too
        with pytest.warns(DeprecationWarning, match=expected) as caught:
            assert qdialect.read is qdialect.load  # pyright: ignore
        assert [warning.filename for warning in caught] == [__file__]
    with pytest.raises(AttributeError, match="no attribute 'reed'"):
        _ = qdialect.reed  # pyright: ignore


def test_other_names_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert current_name("qdialect", "load", {"read": Renamed("load", "0.2")}) == "load"


def test_a_function_that_goes_warns_at_its_caller() -> None:
    def old() -> int:
        warn_deprecated("qdialect.old()", instead="qdialect.new()", since="0.3")
        return 1

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = inspect.stack()[0].lineno + 1
        assert old() == 1
    (warning,) = caught
    assert (
        str(warning.message)
        == "qdialect.old() is deprecated since qdialect 0.3; use qdialect.new()"
    )
    assert (warning.filename, warning.lineno) == (__file__, line)


@pytest.mark.parametrize("old", sorted(MOVED))
def test_the_old_name_of_a_module_imports_it_and_warns(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is deprecated .* use {MOVED[old]}") as seen:
        module = import_module(old)
    assert module is import_module(MOVED[old])
    assert module.__spec__ is not None and module.__spec__.name == MOVED[old]
    assert seen[0].filename.endswith(".py")


def test_what_is_below_a_moved_module_moved_too() -> None:
    with pytest.warns(DeprecationWarning, match="use qdialect.algebra.rounding"):
        rounding = import_module("qdialect.numerics.rounding")
    assert rounding is import_module("qdialect.algebra.rounding")
    with pytest.warns(DeprecationWarning, match="absent"), pytest.raises(ModuleNotFoundError):
        import_module("qdialect.qparams.absent")
