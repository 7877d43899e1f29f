"""Invalid text is refused with errors at the places at which mlir-opt 22 has them.

`invalid/*.pieces` have pieces that mlir-opt rejects (or, some, accepts); `*.places` have the lines
and columns of its errors, piece by piece. The words are our own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qdialect.cli.opt import main

FOLDER = Path(__file__).parent / "invalid"
OPTIONS = ("--split-input-file", "--allow-unregistered-dialect")
_ERROR = re.compile(r"(?:.*):(\d+):(\d+): error: (.+)")

AT_THE_PLACE = {
    "dominance": (24, 24),
    "parse": (109, 92),
    "structure": (37, 37),
    "symbols": (20, 20),
    "types": (48, 48),
}
"""Of how many pieces all errors are on the lines, and at the columns, of mlir-opt's."""


@pytest.mark.parametrize("name", AT_THE_PLACE)
def test_errors_have_the_place(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = FOLDER / f"{name}.pieces"
    lines = path.read_text().split("\n")
    starts = [number for number, line in enumerate(lines, 1) if line.startswith("// -----")]
    assert main([*OPTIONS, str(path)]) == 1
    found: list[list[tuple[int, ...]]] = [[] for _ in range(len(starts) + 1)]
    told = capsys.readouterr().err.splitlines()
    errors = [error for line in told if (error := _ERROR.fullmatch(line))]
    assert len(errors) == sum("error: " in line for line in told)
    for error in errors:
        place = int(error[1]), int(error[2])
        found[sum(start < place[0] for start in starts)].append(place)
    recorded = path.with_suffix(".places").read_text().splitlines()
    expected = [
        [tuple(map(int, place.split(":"))) for place in line.split()[1:]] for line in recorded
    ]
    refused = [
        n
        for n, (ours, theirs) in enumerate(zip(found, expected, strict=True), 1)
        if ours and not theirs
    ]
    assert refused == [], "mlir-opt reads these"
    for depth, share in zip((1, 2), AT_THE_PLACE[name], strict=True):
        same = [
            [place[:depth] for place in ours] == [place[:depth] for place in theirs]
            for ours, theirs in zip(found, expected, strict=True)
        ]
        assert sum(same) >= share, [n for n, holds in enumerate(same, 1) if not holds]
