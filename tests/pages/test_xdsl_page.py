"""The page for users of xDSL, run whole: its script, its commands, and what these print."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support import pages as run_page
from tests.support.public_names import unlisted

PAGE = run_page.ROOT / "docs/howto/xdsl.md"


def test_the_page_prints_what_it_says(tmp_path: Path) -> None:
    ran = run_page.run(PAGE.read_text("utf-8"), tmp_path)
    assert [(r.code, r.output) for r in ran] == [(0, r.step.output) for r in ran] and len(ran) == 3
    for result in ran[0], ran[2]:  # ours sank the rescale, theirs removed the sum
        assert re.search(r"nn\.transpose %x.*\n.*quant\.rescale", result.output)
        assert "arith.addi" not in result.output


def test_the_script_is_short_and_uses_what_stays() -> None:
    script = dict(run_page.files(PAGE.read_text("utf-8")))["walk.py"]
    assert len([line for line in script.splitlines() if line]) <= 20
    assert unlisted(script) == []
