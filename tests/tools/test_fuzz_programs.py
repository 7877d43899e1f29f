"""Random programs have every op in them, and no pass breaks its word on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qdialect.algebra.contract import EXACT
from qdialect.passes.rescale import combine_rescale
from qdialect.plugins.mlir.write import module_text
from tests.generators import programs as random_programs
from tests.generators.programs import NAMES, random_program
from tests.support import program_checks as fuzz_programs
from tests.support.program_checks import Failed, check_one, check_text, fuzz_seed
from tools.fuzz.programs import main

ROOT = Path(__file__).parents[2]


def test_programs_have_every_op() -> None:
    for name in NAMES:
        for seed in range(30):
            module, _ = random_program(seed, 3, names=[name])
            if any(op.name == name for op in module.walk()):
                break
        else:
            pytest.fail(f"no program has '{name}'")


def test_what_a_program_is_follows_from_its_seed() -> None:
    texts = []
    for salt in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-m", "tests.generators.programs", "7", "--ops", "20"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
        )
        texts.append(run.stdout)
    assert texts[0] == texts[1]
    assert texts[0].count(" = ") > 15


@pytest.mark.parametrize("wild", [True, False], ids=["wild", "mild"])
def test_no_pass_breaks_its_word(wild: bool) -> None:
    fired = 0
    for seed in range(9000, 9020):
        tally = fuzz_seed(seed, 12, None, 5, fuzz_programs.CHECKS, None, wild)
        assert not tally.failures, json.dumps(tally.failures, indent=1)
        fired += sum(tally.fired.values())
    assert fired > 20


def test_what_is_claimed_of_outputs_holds_in_any_order_of_passes() -> None:
    """Of 50 programs; `python -m tools.fuzz programs --orders 1 --seeds 20000` runs more."""
    total = fuzz_programs.Tally()
    for seed in range(7000, 7050):
        total.add(fuzz_seed(seed, 14, None, 0, ["numerics"], None, wild=False, in_orders=2))
    assert not total.failures, json.dumps(total.failures, indent=1)
    assert total.compared > 100 and total.claimed["bounded"] > 10


def test_a_wrong_rewrite_is_found_and_the_program_reduced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One guard of one rule is gone: every combination of rescales is said to be exact."""
    rule = combine_rescale.CombineUp
    monkeypatch.setattr(rule, "check", lambda self, match: EXACT)
    found = []
    for seed in range(400):
        try:
            tally = fuzz_seed(
                seed, 6, ["combine-rescale"], 1, ["numerics"], tmp_path / "kept", wild=False
            )
        except Failed:
            continue
        found = [f for f in tally.failures if f["check"] == "numerics"]
        if found:
            break
    assert found, "400 programs did not show it"
    text = Path(found[0]["reduced"]).read_text()
    assert text.startswith("// combine-rescale")
    whole, ctx = random_program(int(found[0]["seed"]), 6, wild=False)
    assert text.count(" = ") < module_text(whole, ctx).count(" = ")


def test_text_that_does_not_come_back_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    module, ctx = random_program(3)
    check_text(module, ctx)
    texts = iter(["module {\n}\n", "module {\n\n}\n"])
    monkeypatch.setattr(fuzz_programs, "module_text", lambda *a, **k: next(texts))
    with pytest.raises(Failed) as error:
        check_text(module, ctx)
    assert error.value.check == "text"


def test_a_second_run_that_changes_something_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    module, ctx = random_program(11)
    real = module_text
    count = iter(range(100))
    monkeypatch.setattr(
        fuzz_programs, "module_text", lambda *a, **k: f"{real(*a, **k)}// {next(count)}"
    )
    with pytest.raises(Failed) as error:
        check_one(module, ctx, "dce", "generic", 0, ["twice"])
    assert error.value.check == "twice"


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "tally.json"
    assert main(["--seeds", "3", "--first", "9000", "--json", str(path)]) == 0
    told = capsys.readouterr().out
    assert "3 programs" in told
    assert "0 failures" in told
    assert json.loads(path.read_text())["programs"] == 3
    assert random_programs.NAMES
