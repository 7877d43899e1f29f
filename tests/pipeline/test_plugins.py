"""Plug-ins that are picked up by being installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from qdialect.errors import QError
from qdialect.pipeline.plugins import Plugins, installed
from qdialect.plugin import declared, plugins
from qdialect.plugins.common.exports import imports

GOOD = """
from xdsl.universe import Universe
from qdialect.ir.behaviors import Behavior, Port, PortKind
from qdialect.passes.cleanup.dce import Dce

class Other(Dce):
    name = "vendor-dce"

UNIVERSE = Universe(all_passes={"vendor-dce": lambda: Other})

def register(session):
    tied = (Port("input", PortKind.TIED, axes=None),)
    session.behaviors.register(
        Behavior("vendor.twist", tied, (Port("result", PortKind.TIED, axes=None),))
    )
"""


def install(folder: Path, name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[qdialect.plugins]\n{name} = {name}\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)


def test_an_installed_plug_in_takes_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "vendor_good", GOOD, monkeypatch)
    assert "vendor_good" in installed()
    plugins = Plugins()
    assert plugins.registry().load("vendor-dce").name == "vendor-dce"
    assert plugins.session().behaviors.named("vendor.twist") is not None
    assert plugins.session().behaviors is not plugins.session().behaviors


def test_without_one_the_metadata_of_packages_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is asked for a group finds what `importlib.metadata` finds."""

    def refuse(**_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(sys, "path", [str(tmp_path), "", str(tmp_path / "absent")])
    monkeypatch.chdir(tmp_path)
    others = [f for f in sys.meta_path if f is PathFinder or not hasattr(f, "find_distributions")]
    monkeypatch.setattr(sys, "meta_path", others)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("importlib.metadata.entry_points", refuse)
        assert installed() == []
    info = tmp_path / "vendor_new-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vendor_new\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[qdialect.plugins]\nv = vendor_new\n")
    assert installed() == ["vendor_new"]
    archive = tmp_path / "packages.zip"
    archive.write_bytes(b"")
    monkeypatch.setattr(sys, "path", [str(archive)])
    monkeypatch.setattr("importlib.metadata.entry_points", refuse)
    with pytest.raises(AssertionError):
        installed()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise RuntimeError('no licence')", "plug-in 'vendor_bad' failed to load: RuntimeError"),
        ("x = 1", "'vendor_bad' is not a plug-in"),
        ("def register(session):\n    session.nothing()", "failed to register: AttributeError"),
    ],
)
def test_a_broken_one_is_named(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "vendor_bad", source, monkeypatch)
    with pytest.raises(QError, match="vendor_bad") as error:
        Plugins().session()
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("PLUGIN = 3", "'vendor_format:PLUGIN' is no qdialect Plugin"),
        ("raise RuntimeError('no licence')", "cannot be loaded: RuntimeError: no licence"),
        ("", "cannot be loaded: AttributeError"),
    ],
)
def test_a_broken_declaration_is_named_and_left_out(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(tmp_path, source, monkeypatch)
    assert [plugin.name for plugin in plugins()].count("vendor") == 0
    assert {"onnx", "tosa"} <= {plugin.name for plugin in plugins()}
    with pytest.raises(QError, match="plug-in 'vendor'") as error:
        Plugins()
    assert message in str(error.value)


def test_a_declared_plug_in_is_found_with_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        'from qdialect.plugin import Plugin\nPLUGIN = Plugin(name="vendor", imports={"v": "dce"})'
    )
    declare(tmp_path, source, monkeypatch)
    assert imports()["v"] == "dce"
    assert imports().keys() == {"v", "tosa", "stablehlo", "tflite"}


def declare(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a declaration, found in this test only."""
    (tmp_path / "vendor_format.py").write_text(source)
    info = tmp_path / "vendor_format-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[qdialect.plugins]\nvendor = vendor_format:PLUGIN\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "vendor_format", raising=False)
    declared.cache_clear()


@pytest.fixture(autouse=True)
def _declared_again() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    yield
    declared.cache_clear()
