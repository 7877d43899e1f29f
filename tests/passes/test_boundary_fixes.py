"""A fix that a boundary finding prints is run as printed, and the finding is gone; where it prints
that no pass mends it, no pass of ours does."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from random_graphs import random_graph
from rewrite_support import apply, parse

from qdialect.analysis.boundary import CODES, Finding, find_boundaries
from qdialect.errors import QError
from qdialect.passes import PASSES
from qdialect.passes.casts.boundary_fixes import mended_boundaries

LIT = Path(__file__).parents[2] / "lit_tests" / "passes" / "quantization-boundary.mlir"
X, W = "!quant.uniform<i8:f32, 0.5:3>", "!quant.uniform<i8:f32, 0.25>"
BY_CHANNEL = "!quant.uniform<i8:f32:{}, {{0.5, 0.25}}>"
Shape = tuple[int | str, ...]

OTHER_IR = frozenset({"lower-quant-ops", "strip-func-quant-types", "normalize-quant-types"})
"""Passes after which there are no quantized types, or others of the same meaning."""
NEEDS_MORE = frozenset({"apply-profile", "assert-all-quantized"})
"""Passes that need data, or only check."""


def tensor(shape: Shape, element: str = "f32") -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def contraction(op: str, *shapes: Shape, x: str = X, w: str = W, bias: str = "") -> dict[str, str]:
    """A contraction with a float result: of codes, and of codes that are dequantized."""
    kinds = [tensor(shapes[0], x), tensor(shapes[1], w), *([bias] if bias else [])]
    result = tensor(shapes[2])
    names = ["%x", "%w", "%b"][: len(kinds)]
    head, _, rest = op.partition(" ")
    takes = ", ".join(f"{n}: {k}" for n, k in zip(names, kinds, strict=True))
    floats = [f"{k[: k.index('!')]}f32>" if "!" in k else k for k in kinds]
    casts = [
        f"%d{n[1:]} = quant.dcast {n} : {k} to {f}" if k != f else ""
        for n, k, f in zip(names, kinds, floats, strict=True)
    ]
    reals = [f"%d{n[1:]}" if cast else n for n, cast in zip(names, casts, strict=True)]
    programs: dict[str, tuple[list[str], list[str], list[str]]] = {
        "of codes": ([], names, kinds),
        "with casts": (casts, reals, floats),
    }
    return {
        form: f"func.func @f({takes}) -> {result} {{\n"
        + "\n".join(above)
        + f"\n%0 = nn.{head} {', '.join(operands)} {rest} : ({', '.join(types)}) -> {result}\n"
        f"func.return %0 : {result}\n}}"
        for form, (above, operands, types) in programs.items()
    }


SUMS: dict[str, dict[str, str]] = {
    "matmul": contraction("matmul", (3, 4), (4, 2), (3, 2)),
    "matmul by channel": contraction("matmul", (3, 4), (4, 2), (3, 2), w=BY_CHANNEL.format(1)),
    "batch matmul": contraction("matmul", (2, 3, 4), (2, 4, 2), (2, 3, 2)),
    "batches of unknown number": contraction("matmul", ("?", 3, 4), ("?", 4, 2), ("?", 3, 2)),
    "fully connected": contraction("fully_connected", ("?", 4), (2, 4), ("?", 2)),
    "float bias": contraction("fully_connected", (3, 4), (2, 4), (3, 2), bias="tensor<2xf32>"),
    "conv1d": contraction("conv1d", (1, 3, 5), (4, 3, 3), (1, 4, 3)),
    "conv2d by channel": contraction(
        "conv2d", (1, 3, 5, 5), (2, 3, 3, 3), (1, 2, 3, 3), w=BY_CHANNEL.format(0)
    ),
    "conv2d of unknown extents": contraction(
        "conv2d", ("?", 3, "?", "?"), (2, 3, 3, 3), ("?", 2, "?", "?"), bias="tensor<2xf32>"
    ),
    "conv3d": contraction("conv3d", (1, 2, 4, 4, 4), (3, 2, 3, 3, 3), (1, 3, 2, 2, 2)),
    "depthwise": contraction(
        "conv2d groups 2", (1, 2, 5, 5), (2, 1, 3, 3), (1, 2, 3, 3), w=BY_CHANNEL.format(0)
    ),
    "transposed": contraction(
        "conv_transpose2d strides [2, 2]",
        (1, 3, 4, 4),
        (3, 2, 2, 2),
        (1, 2, 8, 8),
        w=BY_CHANNEL.format(1),
    ),
    "transposed in groups": contraction(
        "conv_transpose2d strides [2, 2] groups 2", (1, 4, 4, 4), (4, 1, 2, 2), (1, 2, 8, 8)
    ),
}
LEFT: dict[str, tuple[dict[str, str], str]] = {
    "unknown depth": (
        contraction("fully_connected", (3, "?"), (2, "?"), (3, 2)),
        "the number of products summed is not known [overflow]",
    ),
    "too many products": (
        contraction(
            "matmul",
            (3, 4000),
            (4000, 2),
            (3, 2),
            x="!quant.uniform<i16:f32, 1.0>",
            w="!quant.uniform<i16:f32, 1.0>",
        ),
        "a sum of 4000 products may leave 32 bits [overflow]",
    ),
    "codes of floats": (
        contraction(
            "matmul",
            (3, 4),
            (4, 2),
            (3, 2),
            x="!quant.uniform<f8E4M3FN:f32, 1.0>",
            w="!quant.uniform<f8E4M3FN:f32, 1.0>",
        ),
        "codes that are no integers have no integer sums [storage]",
    ),
    "scales by row": (
        contraction("matmul", (2, 4), (4, 2), (2, 2), x=BY_CHANNEL.format(0)),
        "no accumulator has a scale for each of them",
    ),
    "scales by summed column": (
        contraction("fully_connected", (3, 2), (2, 2), (3, 2), w=BY_CHANNEL.format(1)),
        "no accumulator has a scale for each of them",
    ),
}


def findings(text: str) -> list[Finding]:
    module, ctx = parse(text)
    return mended_boundaries(module, ctx)


def of_code(text: str, pipeline: str, code: str) -> list[str]:
    """The messages of a code that a pipeline leaves."""
    module, ctx = parse(text)
    apply(module, ctx, pipeline)
    return [found.message for found in find_boundaries(module, ctx) if found.code == code]


@pytest.mark.parametrize("form", ["of codes", "with casts"])
@pytest.mark.parametrize("name", SUMS)
def test_contractions_of_codes_get_an_accumulator(name: str, form: str) -> None:
    text = SUMS[name][form]
    (found,) = (each for each in findings(text) if each.code != "B7")
    assert (found.code, found.advice) == ("B1", "fix: type-accumulators")
    assert of_code(text, found.fix, "B1") == []


@pytest.mark.parametrize("name", LEFT)
def test_others_say_why_not(name: str) -> None:
    forms, reason = LEFT[name]
    for form in forms:
        if form == "of codes" and name.startswith("scales"):
            continue  # the verifier takes no such op
        (found,) = (each for each in findings(forms[form]) if each.code != "B7")
        assert found.advice == f"no pass mends it: {reason}"
        assert_no_pass_mends(forms[form], found)


# -- every variant of every message -----------------------------------------------------


@cache
def cases() -> dict[str, str]:
    """The functions of the lit test by name, each as a module of its own with its callers."""
    lines = [line for line in LIT.read_text().splitlines() if not line.lstrip().startswith("//")]
    aliases = "\n".join(line for line in lines if line.startswith("!"))
    functions = ["func.func " + part for part in "\n".join(lines).split("func.func ")[1:]]
    named = {text.split("@")[1].split("(")[0]: text for text in functions}
    named = {
        name: "".join(
            other
            for near, other in named.items()
            if near == name or f"call @{name}(" in other or f"call @{near}(" in named[name]
        )
        for name in named
        if "private" not in name
    }
    return {
        name: aliases + "\n" + "\n".join(line for line in text.splitlines() if line[:1] != "!")
        for name, text in named.items()
    }


@pytest.mark.parametrize("name", cases())
def test_what_is_printed_holds(name: str) -> None:
    text = cases()[name]
    for found in findings(text):
        assert bool(found.fix) != bool(found.why)
        if found.fix:
            assert found.message not in of_code(text, found.fix, found.code)
        else:
            assert_no_pass_mends(text, found)


def test_every_code_has_a_case() -> None:
    found = [finding for text in cases().values() for finding in findings(text)]
    assert {each.code for each in found} == set(CODES)
    assert {each.code for each in found if each.fix} == {"B1", "B2", "B3", "B6", "B7"}


def assert_no_pass_mends(text: str, found: Finding) -> None:
    for name, entry in PASSES.items():
        if name in OTHER_IR | NEEDS_MORE or name.startswith("convert-"):
            continue
        levels = (
            ("", "{numerics=relaxed}") if any(o[0] == "numerics" for o in entry.options) else ("",)
        )
        for level in levels:
            try:
                left = of_code(text, f"{name}{level}", found.code)
            except QError:
                continue  # it needs options, or refuses such a module
            assert left, f"{name}{level} mends: {found.message}"


def test_fixes_of_random_programs() -> None:
    """After a fix there are only those findings with its message that it was not printed at."""
    fixes: Counter[str] = Counter()
    for seed in range(30):
        text = random_graph(seed).text
        found = findings(text)
        for fix in {each.fix for each in found if each.fix}:
            module, ctx = parse(text)
            apply(module, ctx, fix)
            left = Counter((each.code, each.message) for each in find_boundaries(module, ctx))
            before = Counter((each.code, each.message) for each in found)
            for code, message in {(each.code, each.message) for each in found if each.fix == fix}:
                mended = sum(
                    each.fix == fix and each.code == code and each.message == message
                    for each in found
                )
                assert left[code, message] <= before[code, message] - mended, (seed, fix, message)
                fixes[code] += mended
    assert {"B3", "B6", "B7"} <= fixes.keys()
