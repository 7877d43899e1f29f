"""Every op that linalg can express, in engines: all configurations of a family in one run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import pytest
from engine_support import READS, agree
from op_configurations import (
    Program,
    comparisons,
    places,
    resizes,
    resizes_from_before,
    runtime_indices,
    transposed,
)

TYPES = {
    "a": "i8:f32, 0.05:3",
    "b": "i8:f32, 0.03:-7",
    "u": "u8:f32, 0.05:131",
    "n": "i8<-100:90>:f32, 0.05:5",
    "h": "i16:f32, 0.001",
    "f": "i4:f32, 0.5:1",
    "g": "u4:f32, 0.25:9",
    "t": "i2:f32, 0.5",
    "q": "i8:f32, 0.0625:3",
    "r": "u8:f32, 0.0625:100",
    "o": "i8:f32, 0.2:-4",
    "p": "u8:f32, 0.2:100",
    "s": "i32:f32, 0.001",
    "w": "i8:f32, 0.02",
    "z": "i8:f32, 0.02:5",
    "v": "u8:f32, 0.02:120",
    "c": "i8:f32:0, {0.01,0.02,0.03,0.04}",
    "k": "i8:f32:0, {0.01:1,0.02:-3,0.03:100,0.04}",
}


def kind(text: str) -> str:
    """`a4x3` is a tensor of 4x3 of type a."""
    name, shape = text[0], text[1:]
    return f"tensor<{shape}x!quant.uniform<{TYPES[name]}>>"


def constant(text: str, seed: int) -> str:
    """A constant of pseudo-random codes within the bounds of its storage."""
    shape = [int(n) for n in text[1:].split("x")]
    found = re.match(r"[iu](\d+)", TYPES[text[0]])
    assert found is not None
    width = int(found[1])
    low, count = (-(1 << (width - 1)), 1 << width) if width <= 16 else (-200, 400)
    numbers: list[int] = []
    state = seed * 7919 + 17
    for _ in range(_size(shape)):
        state = (state * 1103515245 + 12345) % (1 << 31)
        numbers.append(low + (state >> 8) % count)
    return f"dense<{_nested(numbers, shape)}> : tensor<{text[1:]}xi{width}> : {kind(text)}"


def _size(shape: Sequence[int]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total


def _nested(numbers: Sequence[int], shape: Sequence[int]) -> str:
    if len(shape) == 1:
        return str(list(numbers))
    step = len(numbers) // shape[0]
    parts = (_nested(numbers[n : n + step], shape[1:]) for n in range(0, len(numbers), step))
    return f"[{', '.join(parts)}]"


def batch(configurations: Sequence[str]) -> str:
    """One function of them all. `op a2x3, !c3x4 attributes -> o2x4`: `!` is a constant."""
    arguments: dict[str, str] = {}
    lines: list[str] = []
    results: list[tuple[str, str]] = []
    for n, text in enumerate(configurations):
        found = re.match(r"(\S+) ((?:!?[a-z][\dx]+(?:, )?)+)(.*) -> (\S+)$", text)
        assert found is not None, text
        op, given, attributes, result = found.groups()
        names: list[str] = []
        kinds: list[str] = []
        for place, operand in enumerate(given.split(", ")):
            kinds.append(kind(operand.lstrip("!")))
            if operand.startswith("!"):
                names.append(f"%c{n}_{place}")
                lines.append(f"  {names[-1]} = nn.constant {constant(operand[1:], n)}")
            else:
                names.append(arguments.setdefault(f"{operand}.{place}", f"%x{len(arguments)}"))
        lines.append(
            f"  %r{n} = {op} {', '.join(names)}{attributes} : ({', '.join(kinds)}) "
            f"-> {kind(result)}"
        )
        results.append((f"%r{n}", kind(result)))
    taken = ", ".join(f"{name}: {kind(text.partition('.')[0])}" for text, name in arguments.items())
    kinds = [one for _, one in results]
    return (
        f"func.func @main({taken}) -> ({', '.join(kinds)}) {{\n" + "\n".join(lines) + "\n"
        f"  func.return {', '.join(name for name, _ in results)} : {', '.join(kinds)}\n}}\n"
    )


FAMILIES: Mapping[str, Sequence[str]] = {
    "convolutions": [
        "nn.conv2d a1x3x6x5, !w4x3x3x3 -> o1x4x4x3",
        "nn.conv2d a2x3x6x5, !c4x3x3x3 strides [2, 1] pads [1, 0, 1, 2] -> o2x4x3x5",
        "nn.conv2d a1x3x7x7, !w4x3x2x2, !s4 dilations [2, 3] -> o1x4x5x4",
        "nn.conv2d u1x3x6x5, !w4x3x3x3 pads [1, 1, 1, 1] -> p1x4x6x5",
        "nn.conv2d a1x3x6x5, !z4x3x3x3 pads [1, 1, 1, 1] -> o1x4x6x5",
        "nn.conv2d a1x3x6x5, !v4x3x3x3 -> o1x4x4x3",
        "nn.conv2d a1x3x6x5, w4x3x3x3 pads [1, 1, 1, 1] -> o1x4x6x5",
        "nn.conv2d u1x3x6x5, v4x3x3x3 pads [1, 1, 1, 1] -> o1x4x6x5",
        "nn.conv2d a1x4x6x5, !w4x1x3x3 groups 4 pads [1, 1, 1, 1] -> o1x4x6x5",
        "nn.conv2d u1x4x6x5, !w8x1x3x3 groups 4 -> o1x8x4x3",
        "nn.conv2d a1x4x6x5, !w4x2x3x3 groups 2 pads [1, 1, 1, 1] -> o1x4x6x5",
        "nn.conv2d a1x4x6x5, z2x2x3x3 groups 2 -> o1x2x4x3",
        "nn.conv2d f1x3x6x5, !f4x3x3x3 -> o1x4x4x3",
        "nn.conv2d g1x3x6x5, !t4x3x3x3 pads [1, 1, 1, 1] -> o1x4x6x5",
        "nn.conv1d a1x3x9, !w4x3x3 strides [2] pads [1, 1] -> o1x4x5",
        "nn.conv1d u1x4x9, !w4x1x3 groups 4 -> o1x4x7",
        "nn.conv3d a1x2x4x3x3, !w4x2x2x2x2 pads [0, 1, 0, 0, 0, 1] -> o1x4x3x3x3",
    ],
    "products": [
        "nn.fully_connected a2x6, !w4x6 -> o2x4",
        "nn.fully_connected u2x6, !c4x6 -> p2x4",
        "nn.fully_connected a2x6, !z4x6, !s4 -> o2x4",
        "nn.fully_connected a2x6, w4x6 -> o2x4",
        "nn.fully_connected f2x6, !t4x6 -> o2x4",
        "nn.matmul a2x6, b6x3 -> o2x3",
        "nn.matmul u2x6, v6x3 -> o2x3",
        "nn.matmul a2x6, !z6x3 -> o2x3",
        "nn.matmul a3x2x6, !w6x3 -> o3x2x3",
        "nn.matmul a3x2x6, b3x6x3 -> o3x2x3",
        "nn.matmul a2x1x2x6, b3x6x3 -> o2x3x2x3",
        "nn.matmul a3x2x6, !z3x6x3 -> o3x2x3",
        "nn.matmul a6, b6x3 -> o3",
    ],
    "elementwise": [
        "nn.add a2x3x4, b2x3x4 -> o2x3x4",
        "nn.add a2x3x4, b3x1 -> o2x3x4",
        "nn.add u2x3x4, !b1x4 -> p2x3x4",
        "nn.sub a2x3x4, u2x1x4 -> o2x3x4",
        "nn.mul a2x3x4, b4 -> o2x3x4",
        "nn.mul u2x3x4, b2x3x4 -> p2x3x4",
        "nn.maximum a2x3, a2x3 -> a2x3",
        "nn.minimum u2x3, u1x3 -> u2x3",
        "nn.relu a2x50 -> a2x50",
        "nn.relu u2x50 -> u2x50",
        "nn.relu n2x50 -> n2x50",
        "nn.relu f2x8 -> f2x8",
        "nn.clip q2x50 min -1.0 max 2.0 -> q2x50",
        "nn.clip r2x50 min 0.0 max 6.0 -> r2x50",
        "nn.table a2x50, !o256 -> o2x50",
        "nn.table u2x50, !h256 -> h2x50",
        "nn.table g2x8, !o16 -> o2x8",
        "nn.table a2x50, !s256 -> s2x50",
    ],
    "pools": [
        "nn.max_pool2d a1x2x6x5 kernel [2, 3] strides [2, 1] pads [1, 0, 0, 1] -> a1x2x3x4",
        "nn.max_pool2d u1x2x6x5 kernel [3, 3] pads [1, 1, 1, 1] -> u1x2x6x5",
        "nn.max_pool2d n1x2x6x5 kernel [3, 3] strides [2, 2] -> n1x2x2x2",
        "nn.max_pool2d a1x2x7x7 kernel [2, 2] dilations [2, 3] -> a1x2x5x4",
        "nn.max_pool1d a1x2x9 kernel [3] strides [2] -> a1x2x4",
        "nn.avg_pool2d a1x2x6x5 kernel [2, 3] -> o1x2x5x3",
        "nn.avg_pool2d u1x2x6x5 kernel [3, 3] pads [1, 1, 1, 1] -> p1x2x6x5",
        "nn.avg_pool1d a1x2x9 count_include_pad true kernel [3] pads [1, 1] -> o1x2x9",
        "nn.max_pool3d a1x2x4x5x3 kernel [2, 3, 1] strides [1, 2, 1] -> a1x2x3x2x3",
        "nn.global_avg_pool2d a1x3x4x5 -> o1x3x1x1",
        "nn.global_avg_pool1d u2x3x7 -> o2x3x1",
        "nn.reduce_sum a2x3x4 axes [1] -> o2x1x4",
        "nn.reduce_mean u2x3x4 axes [0, 2] keepdims false -> o3",
        "nn.reduce_max a2x3x4 axes [-1] -> a2x3x1",
        "nn.reduce_min u2x3x4 axes [1] keepdims false -> u2x4",
    ],
    "movement": [
        "nn.reshape a2x3x4 shape [4, 6] -> a4x6",
        "nn.flatten a2x3x4 axis 1 -> a2x12",
        "nn.squeeze a2x1x4 axes [1] -> a2x4",
        "nn.unsqueeze a2x4 axes [0, 3] -> a1x2x4x1",
        "nn.transpose a2x3x4 perm [2, 0, 1] -> a4x2x3",
        "nn.concat a2x3, a2x4 axis 1 -> a2x7",
        "nn.concat u2x3, !u1x3, u2x3 axis 0 -> u5x3",
        "nn.pad a2x3 low [0, 1] high [2, 0] -> a4x4",
        "nn.pad r2x3 low [0, 1] high [2, 0] value 1.0 -> r4x4",
        "nn.slice a6x7 starts [1, 6] stops [6, 7] steps [2, 1] -> a3x1",
        "nn.slice a6x7 starts [4, 6] stops [-9, 0] steps [-2, -3] -> a3x2",
        "nn.tile a2x3 repeats [2, 3] -> a4x9",
        "nn.flip u2x3 axes [1] -> u2x3",
        "nn.depth_to_space a1x8x2x3 block 2 -> a1x2x4x6",
        "nn.pad a4x5 low [1, 2] high [0, 1] mode reflect -> a5x8",
        "nn.slice u6x7 starts [0, 1] stops [6, 7] steps [1, 3] -> u6x2",
    ],
}


GROUPS = (transposed, resizes, resizes_from_before, places, runtime_indices, comparisons)
"""Those of tests/lowerings/op_configurations.py that are not among the families."""


def test_how_many() -> None:
    assert sum(map(len, FAMILIES.values())) >= 60


@pytest.mark.parametrize("engine", READS["linalg"])
@pytest.mark.parametrize("family", FAMILIES)
def test_bit_equal(family: str, engine: str) -> None:
    assert agree(batch(FAMILIES[family]), engine, to="linalg") > 100


@pytest.mark.parametrize("engine", READS["linalg"])
@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.__name__)
def test_groups_are_bit_equal(group: Callable[[Program], None], engine: str) -> None:
    program = Program()
    group(program)
    assert agree(program.text, engine, to="linalg", target="generic") > 100


BITS = """
!x = tensor<2x3x!quant.uniform<i8:f32, 0.05:3>>
func.func @main(%x: !x, %y: !x, %told: tensor<3xi1>) -> (tensor<2x3xi1>, !x) {
  %0 = nn.compare %x, %y mode le : (!x, !x) -> tensor<2x3xi1>
  %1 = nn.select %told, %x, %y : (tensor<3xi1>, !x, !x) -> !x
  func.return %0, %1 : tensor<2x3xi1>, !x
}
"""


def test_truth_at_the_interface() -> None:
    """One bit outside, as the model says; 8 in memory."""
    assert agree(BITS, "iree", to="linalg") == 24


def test_transposed_over_three_dimensions() -> None:
    line = "nn.conv_transpose3d a1x2x3x2x3, !w2x3x2x1x2 strides [1, 2, 2] -> o1x3x4x3x6"
    for engine in READS["linalg"]:
        assert agree(batch([line]), engine, to="linalg") == 2 * 216
