"""Every rule keeps its contract on denormal, huge, equal and far scales, and zero points at the
ends: a few programs of each family (`python -m tools.fuzz contracts` runs all)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from contract_proofs import main, prove
from extreme_grids import EXTREMES, on_extreme
from families import FAMILIES, Family
from rewrite_support import EXECUTED

from qdialect.errors import InputError
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module


@pytest.mark.parametrize(
    "family",
    FAMILIES,
    ids=lambda f: f"{f.pipeline.partition('{')[0]}:{'+'.join(f.rules)}:{f.generate.__name__}",
)
def test_contracts_hold_on_extreme_grids(family: Family) -> None:
    wrong = prove(family, 0, 4)
    assert not wrong, "\n".join(wrong)


def test_scales_and_zero_points_are_changed() -> None:
    text = "!quant.uniform<i8:f32, 0.5:3> !quant.uniform<u4:f32:1, {0.25:1, 2.0}>"
    named = {extreme.name: on_extreme(text, extreme) for extreme in EXTREMES}
    assert named["equal"] == (
        "!quant.uniform<i8:f32, 0.5:3> !quant.uniform<u4:f32:1, {0.5:1,0.5:0}>"
    )
    assert named["high"] == (
        "!quant.uniform<i8:f32, 0.5:127> !quant.uniform<u4:f32:1, {0.25:15,2.0:15}>"
    )
    assert f"{2.0**-149!r}:3" in named["few bits"]
    assert f"{2.0**127!r}:3" in named["equal huge"]


@pytest.mark.parametrize("extreme", EXTREMES, ids=lambda extreme: extreme.name)
def test_every_type_that_is_made_is_one(extreme) -> None:
    kind = "tensor<2x!quant.uniform<i8:f32:0, {0.5:3, 0.1}>>"
    text = f"func.func @main(%x: {kind}) {{ return }}"
    try:
        read_module(on_extreme(text, extreme), new_context())
    except InputError as error:
        pytest.fail(str(error))


@pytest.fixture(name="no_counts")
def _no_counts() -> Iterator[None]:
    """What other tests of this process have counted is put aside."""
    counted = {rule: Counter(counts) for rule, counts in EXECUTED.items()}
    EXECUTED.clear()
    yield
    for rule, counts in counted.items():
        EXECUTED.setdefault(rule, Counter()).update(counts)


@pytest.mark.usefixtures("no_counts")
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--rules", "identity-rescale", "--most", "3", "--extremes", "3"]
    assert main(given) == 0
    told = capsys.readouterr().out
    assert "| `identity-rescale` | 3 | " in told
    assert "0 programs on which a contract did not hold" in told
