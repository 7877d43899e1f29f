"""What is invalid is refused in mlir-opt's words, at its places, with its notes.

`invalid/*.pieces` have pieces that mlir-opt 22 rejects (or, some, accepts), `*.expected` what it
says: `python -m tools.compare_diagnostics --record` wrote them.  `AGREEING` are the shares of
pieces that we say the same of, all of it; it may only go up.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.compare_diagnostics import by_piece, errors, expected, said_by_us

FOLDER = Path(__file__).parents[1] / "verify" / "invalid"

AGREEING = {"dominance": 24, "structure": 36, "symbols": 20, "parse": 105, "types": 40}


@pytest.mark.parametrize("name", AGREEING)
def test_what_is_said_is_what_mlir_opt_says(name: str) -> None:
    path = FOLDER / f"{name}.pieces"
    pieces = list(
        zip(by_piece(path, expected(path)), by_piece(path, said_by_us(path)), strict=True)
    )
    same = [number for number, (theirs, ours) in enumerate(pieces, 1) if theirs == ours]
    assert len(same) >= AGREEING[name], f"{len(same)}: {same}"
    refused = [n for n, (theirs, ours) in enumerate(pieces, 1) if errors(ours) and not theirs]
    assert refused == [], "mlir-opt reads these"
