"""Placement is linear: what it executes is counted, not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from rewrite_support import parse, quant, tensor

from qdialect.passes.rescale.place_rescales import PlaceRescales
from qdialect.placement import Problem, solve

A, B, C = quant("i8", 0.5, 3), quant("i8", 0.75, 1), quant("i8", 0.625)


def calls(work: Callable[[], object]) -> int:
    """How many functions `work` calls."""
    count = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def instructions(work: Callable[[], object]) -> int:
    """How many instructions of Python `work` takes."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def wide_concat(size: int) -> str:
    """A concat whose operands are all rescaled, of which a slice is used."""
    part, moved = tensor([1, 4], A), tensor([1, 4], B)
    lines = [f"%r{n} = quant.rescale %x{n} : {part} to {moved}" for n in range(size)]
    whole, kinds = tensor([size, 4], B), ", ".join([moved] * size)
    operands = ", ".join(f"%r{n}" for n in range(size))
    lines.append(f"%c = nn.concat {operands} axis 0 : ({kinds}) -> {whole}")
    window = "starts [0, 0] stops [1, 4] steps [1, 1]"
    lines.append(f"%s = nn.slice %c {window} : ({whole}) -> {moved}")
    return _function([f"%x{n}: {part}" for n in range(size)], lines)


def many_users(size: int) -> str:
    """One value that many use, half of them in two other encodings."""
    x, s = [tensor([size, 4], q) for q in (A, B, C)], [tensor([1, 4], q) for q in (A, B, C)]
    lines: list[str] = []
    for n in range(size // 2):
        # No two are alike.
        to, window = 1 + n % 2, f"starts [{n}, 0] stops [{n + 1}, 4] steps [1, 1]"
        result = tensor([size, 4], quant("i8", 0.5 + n / 256))
        lines.append(f"%r{n} = quant.rescale %x : {x[0]} to {x[to]}")
        lines.append(f"%s{n} = nn.slice %r{n} {window} : ({x[to]}) -> {s[to]}")
        lines.append(f"%u{n} = nn.sigmoid %x : ({x[0]}) -> {result}")
    return _function([f"%x: {x[0]}"], lines)


def deep_chain(size: int) -> str:
    """One rescale above many ops and a slice."""
    a, b, s = tensor([8, 4], A), tensor([8, 4], B), tensor([1, 4], B)
    lines = [f"%0 = quant.rescale %x : {a} to {b}"]
    lines += [f"%{n} = nn.relu %{n - 1} : ({b}) -> {b}" for n in range(1, size)]
    window = "starts [0, 0] stops [1, 4] steps [1, 1]"
    lines.append(f"%s = nn.slice %{size - 1} {window} : ({b}) -> {s}")
    return _function([f"%x: {a}"], lines)


def _function(arguments: list[str], lines: list[str]) -> str:
    body = "\n".join(lines)
    return f"func.func @f({', '.join(arguments)}) {{\n{body}\nfunc.return\n}}"


@pytest.mark.parametrize("shape", [wide_concat, many_users, deep_chain])
def test_placement_is_linear(shape: Callable[[int], str]) -> None:
    def cost(size: int) -> int:
        module, ctx = parse(shape(size))
        return calls(lambda: PlaceRescales().place(ctx, module))

    cost(8)  # what is imported and remembered once
    small, large, larger = cost(20), cost(40), cost(80)
    assert larger - large < 2.2 * (large - small)


def test_elimination_of_a_star_is_linear() -> None:
    def cost(leaves: int) -> int:
        problem = Problem([[0, 5]] + [[3, 0] for _ in range(leaves)])
        for leaf in range(1, leaves + 1):
            problem.add(0, leaf, [[0, 2], [2, 0]])
        return instructions(lambda: solve(problem, [0] * (leaves + 1)))

    small, large, larger = cost(30), cost(60), cost(120)
    assert larger - large < 2.2 * (large - small)
