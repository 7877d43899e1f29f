"""Fixtures of several tests of profiles."""

from pathlib import Path

import pytest
from profile_models import data_file, saved


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A float model, in the current folder with its data."""
    monkeypatch.chdir(tmp_path)
    data_file(tmp_path)
    return saved(tmp_path)
