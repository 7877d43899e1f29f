"""Whatever ends ONNX Runtime on a model does not end a command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qdialect.errors import InputError
from tests.support.commands import Result, call, qopt

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from qdialect.formats.onnx.write import engine as engines  # noqa: E402
from qdialect.formats.onnx.write.engine import OrtEngine  # noqa: E402
from tests.generators.networks import ptq_network as _  # noqa: E402, F401
