"""Random casts, mostly wrong: mlir-opt gives the same verdict with the same words."""

from __future__ import annotations

import random
import re
import subprocess

import pytest
from quant_support import find_mlir_opt, rejection

COUNT = 600


class CastGenerator:
    """Random casts on small shapes, as the text of a function of four lines."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def function(self) -> str:
        pick = self.random
        name = pick.choice(["qcast", "dcast", "scast"])
        other = "i8" if name == "scast" else "f32"
        if pick.random() < 0.3:
            other = pick.choice(["f32", "f16", "i8", "i4", "ui8", "index", "i16"])
        source, target = other, self._quantized()
        if (name != "qcast") != (name == "scast" and pick.random() < 0.5):
            source, target = target, source
        if pick.random() < 0.03:
            target = source
        dims = self._dims()
        source = f"tensor<{dims}{source}>" if dims is not None else source
        dims = dims if pick.random() < 0.9 else self._dims()
        target = f"tensor<{dims}{target}>" if dims is not None else target
        return (
            f"func.func @f(%a: {source}) {{\n"
            f"  %0 = quant.{name} %a : {source} to {target}\n"
            "  return\n}\n"
        )

    def _dims(self) -> str | None:
        roll = self.random.randrange(12)
        if roll < 2:
            return None if roll == 0 else "*x"
        rank = self.random.choice([0, 1, 2, 2, 2, 3])
        return "".join(self.random.choice("12446800?") + "x" for _ in range(rank))

    def _quantized(self) -> str:
        pick = self.random
        head = f"{pick.choice(['i8', 'u8', 'i4'])}:{pick.choice(['f32', 'f32', 'f16'])}"
        kind = pick.randrange(8)
        if kind == 0:
            return pick.choice([f"!quant.any<{head}>", "!quant.any<i8>", "!quant.any<u4:f32>"])
        if kind == 1:
            return f"!quant.calibrated<{head.split(':')[1]}<0.0:1.0>>"
        if kind == 2:
            return f"!quant.uniform<{head}, 1.0>"
        if kind < 5:
            scales = ",".join(["1.0"] * pick.choice([1, 2, 4]))
            return f"!quant.uniform<{head}:{pick.randrange(3)}, {{{scales}}}>"
        blocks = ",".join(
            f"{pick.randrange(3)}:{pick.choice([1, 2, 2, 3, 4])}" for _ in range(pick.randrange(4))
        )
        scales = "1.0"
        for _ in range(pick.choice([1, 2, 2, 2, 3])):
            scales = f"{{{','.join([scales] * pick.choice([1, 2, 2, 3, 4]))}}}"
        return f"!quant.uniform<{head}:{{{blocks}}}, {scales}>"


@pytest.mark.parametrize("seed", range(5))
def test_mlir_opt_gives_the_same_verdict(seed: int):
    tool = find_mlir_opt()
    if tool is None:
        pytest.skip("no mlir-opt: set QDIALECT_MLIR_OPT, or install qdialect[mlir]")
    generator = CastGenerator(seed)
    functions = [generator.function() for _ in range(COUNT)]
    result = subprocess.run(
        [tool, "--split-input-file"],
        input="// -----\n".join(functions),
        capture_output=True,
        text=True,
        check=False,
    )
    verdicts: dict[int, str] = {}
    for line, message in re.findall(r"^<stdin>:(\d+):\d+: error: (.*)$", result.stderr, re.M):
        verdicts.setdefault((int(line) - 1) // 5, message)
    for index, function in enumerate(functions):
        assert rejection(function) == verdicts.get(index), function
