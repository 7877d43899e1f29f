"""The table of PyTorch's ops."""

from __future__ import annotations

from qdialect.ir.ops.declare import DECLARED
from qdialect.plugins.torch.read.table import RULES, rule_of


def test_an_op_has_one_row() -> None:
    """What an op declares is what is read: no other row stands in its place."""
    rows = {f"aten.{declared.aten.op}" for declared in DECLARED.values() if declared.aten}
    assert len(rows) > 10
    assert [row for row in rows if RULES[row].__qualname__ != "same.<locals>.rule"] == []


def test_an_overload_may_have_a_row_of_its_own() -> None:
    assert rule_of("aten.max.other") is rule_of("aten.maximum.default")
    assert rule_of("aten.max.dim") is rule_of("aten.max.default")
    assert rule_of("mine.max.dim") is None
