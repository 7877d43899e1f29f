"""Which ops XNNPACK takes is what LiteRT says that it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation

pytest.importorskip("ai_edge_litert")

from qdialect.pipeline.plugins import Plugins
from qdialect.plugins.tflite import target_delegate as litert_delegate
from qdialect.plugins.tflite.file.read import read_bytes
from qdialect.plugins.tflite.file.to_module import read_module
from qdialect.plugins.tflite.raising.convert import RaiseTflite
from tests.support.tflite_cases import CASES, Maker
from tests.support.tflite_models import LitertError, litert_ops


class Far(Maker):
    """A maker of scales that are far apart."""

    def qparams(self, scale: float | None = None, zero: int | None = None) -> dict[str, Any]:
        made = super().qparams(scale, zero)
        if made and scale is None:
            made["scales"] = float(np.float32(2.0 ** self.rng.uniform(-12, 4)))
        return made


@pytest.mark.parametrize("name", CASES)
def test_what_xnnpack_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def spy(op: Operation, known: Any = litert_delegate.takes) -> bool:
        asked.append(known(op))
        return asked[-1]

    monkeypatch.setattr(litert_delegate, "takes", spy)
    for kind in ("i8", "u8", "i16"):
        for seed, maker in enumerate((Maker, Far, Far)):
            case = CASES[name](maker(np.random.default_rng(seed), kind))
            if case is None:
                continue
            try:
                ran = litert_ops(case.data, "xnn")
            except LitertError:
                continue
            asked.clear()
            ctx = Plugins().session(allow_unregistered=True)
            RaiseTflite().apply(ctx, read_module(read_bytes(case.data), ctx))
            assert set(asked) <= {"DELEGATE" in ran}, (kind, seed)
