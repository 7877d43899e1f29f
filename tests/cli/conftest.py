"""Fixtures of several tests of commands."""

from pathlib import Path

import onnx
import pytest

from tests.support.qdq_models import conv_relu


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """An ONNX file: convolution and relu between casts."""
    path = tmp_path / "net.onnx"
    onnx.save(conv_relu([1, 3, 8, 8]), path)
    return path
