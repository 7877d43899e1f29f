"""`python -m tools.bench targets`: the tables that it makes of what targets take."""

from __future__ import annotations

from qdialect.quantizer.coverage import Coverage, Left
from qdialect.workflows.taken import Reason, Taken
from tools.bench.targets import Row, _left_float, tables


def test_the_tables() -> None:
    rows = [
        Row("net", "npu", 3, 4, 1.6, [Reason("nn.relu", "not i8|i16", 1, "r")]),
        Row("deep", "npu", 0, 0, 0.2, [Reason("nn.relu", "not i8|i16", 2, "s")]),
        Row("net", "acc", error="no data"),
    ]
    assert tables(rows).splitlines() == [
        "| target | net | deep |",
        "|---|--:|--:|",
        "| `npu` | 75 % of 4, 2 s | – of 0, 0 s |",
        "| `acc` | error |  |",
        "",
        "| target | ops | op | why it is not taken |",
        "|---|--:|---|---|",
        "| `npu` | 3 | `nn.relu` | not i8\\|i16 |",
        "",
        "`net` for `acc`: no data",
    ]


def test_why_ops_are_on_floats_is_what_the_quantizer_said() -> None:
    coverage = Coverage(left=[Left("nn.mul", "a", "neighbor", "beside a float op")])
    reasons = [Reason("nn.mul", "on floats", 3, "a"), Reason("nn.div", "no kernel", 1, "d")]
    assert _left_float(Taken("npu", [], reasons), coverage) == [
        Reason("nn.mul", "on floats: beside a float op", 1, "a"),
        Reason("nn.mul", "on floats", 2, "a"),
    ]
