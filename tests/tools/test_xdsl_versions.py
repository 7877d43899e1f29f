"""Which versions of xDSL are tested, and that one that cannot be had is no failure."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from tools import xdsl_versions


def test_the_installed_version_is_one_that_is_allowed() -> None:
    text = (xdsl_versions.ROOT / "pyproject.toml").read_text("utf-8")
    oldest, newest = (int(v.partition(".")[2]) for v in xdsl_versions.allowed(text))
    assert oldest <= int(version("xdsl").split(".")[1]) <= newest
    with pytest.raises(ValueError, match="no dependency"):
        xdsl_versions.allowed('dependencies = ["xdsl"]')


def test_a_version_that_pip_cannot_get_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(xdsl_versions, "PIP", (*xdsl_versions.PIP, "--no-index"))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert xdsl_versions.run_on("0.0", tmp_path / "x") == 0
    assert "xDSL 0.0: skipped, ERROR: " in capfd.readouterr().out
