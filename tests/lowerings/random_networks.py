"""Random integer networks, bit for bit in engines:

python tests/lowerings/random_networks.py --count 300 --engine tosa-reference --engine mlir-runner
"""

from __future__ import annotations

import argparse
import random

from op_configurations import Program, uniform

Value = tuple[str, tuple[int, ...], str]
"""Name, shape, parameters."""


def network(seed: int) -> str:
    """A network of residuals, joins, groups, pools and clamps with odd shapes, and a head."""
    drawn = random.Random(seed)
    p = Program()
    shape = (
        drawn.choice((1, 1, 2)),
        drawn.randint(1, 5),
        drawn.randint(3, 11),
        drawn.randint(3, 9),
    )
    params = _params(drawn)
    last: Value = (p.argument(uniform(shape, params)), shape, params)
    earlier = [last]
    for _ in range(drawn.randint(3, 8)):
        last = drawn.choice((_convolution, _convolution, _pool, _residual, _join, _move, _clamp))(
            p, drawn, last, earlier
        )
        earlier.append(last)
    _head(p, drawn, last)
    return p.text


def _params(drawn: random.Random) -> str:
    scale = drawn.choice((0.5, 0.03125, 0.1, 0.0371, 1.7, 0.0047058823529))
    storage = drawn.choice(("i8", "i8", "i8", "u8"))
    low = -128 if storage == "i8" else 0
    zero = drawn.choice((low, low + 128, low + drawn.randint(0, 255)))
    return f"{storage}:f32, {scale!r}:{zero}"


def _kind(value: Value) -> str:
    return uniform(value[1], value[2])


def _given(*values: Value) -> list[tuple[str, str]]:
    return [(v[0], _kind(v)) for v in values]


def _rounding(drawn: random.Random) -> str:
    return f"rounding {drawn.choice(('half_even', 'half_up', 'half_away'))}"


def _convolution(p: Program, drawn: random.Random, x: Value, _: list[Value]) -> Value:
    n, c, h, w = x[1]
    kernel = (drawn.randint(1, min(3, h)), drawn.randint(1, min(3, w)))
    depthwise = drawn.random() < 0.3
    groups = c if depthwise else drawn.choice([g for g in (1, 1, 2, 3) if c % g == 0])
    out = groups * drawn.randint(1, 3)
    strides = (drawn.randint(1, 2), drawn.randint(1, 3))
    pads = tuple(drawn.randint(0, k - 1) for k in (*kernel, *kernel))
    places = [
        (m + pads[d] + pads[d + 2] - kernel[d]) // strides[d] + 1 for d, m in enumerate((h, w))
    ]
    weight = (out, c // groups, *kernel)
    if drawn.random() < 0.5:
        scales = ", ".join(repr(round(drawn.uniform(0.001, 0.05), 5)) for _ in range(out))
        q = f"i8:f32:0, {{{scales}}}"
    else:
        q = f"i8:f32, {round(drawn.uniform(0.001, 0.05), 5)!r}:{drawn.choice((0, 0, 5, -9))}"
    made = p.constant(weight, q)
    params, shape = _params(drawn), (n, out, *places)
    name = p.op(
        f"nn.conv2d {{}}, {{}} groups {groups} strides {list(strides)} pads {list(pads)} "
        f"{_rounding(drawn)}",
        [*_given(x), (made, uniform(weight, q))],
        uniform(shape, params),
        keep=False,
    )
    return name, shape, params


def _pool(p: Program, drawn: random.Random, x: Value, _: list[Value]) -> Value:
    n, c, h, w = x[1]
    kernel = (drawn.randint(1, min(3, h)), drawn.randint(1, min(3, w)))
    strides = (drawn.randint(1, 2), drawn.randint(1, 2))
    shape = (n, c, *((m - k) // s + 1 for m, k, s in zip((h, w), kernel, strides, strict=True)))
    name = drawn.choice(("max", "avg"))
    params = x[2] if name == "max" else _params(drawn)
    text = f"nn.{name}_pool2d {{}} kernel {list(kernel)} strides {list(strides)}"
    text += "" if name == "max" else f" {_rounding(drawn)}"
    return p.op(text, _given(x), uniform(shape, params), keep=False), shape, params


def _residual(p: Program, drawn: random.Random, x: Value, earlier: list[Value]) -> Value:
    other = drawn.choice([v for v in earlier if v[1] == x[1]] or [x])
    name, params = drawn.choice(("add", "add", "mul", "sub")), _params(drawn)
    text = f"nn.{name} {{}}, {{}} {_rounding(drawn)}"
    return p.op(text, _given(x, other), uniform(x[1], params), keep=False), x[1], params


def _join(p: Program, drawn: random.Random, x: Value, earlier: list[Value]) -> Value:
    alike = [v for v in earlier if v[2] == x[2] and (v[1][0], *v[1][2:]) == (x[1][0], *x[1][2:])]
    other = drawn.choice(alike or [x])
    n, c, *places = x[1]
    shape = (n, c + other[1][1], *places)
    text = "nn.concat {}, {} axis 1"
    return p.op(text, _given(x, other), uniform(shape, x[2]), keep=False), shape, x[2]


def _move(p: Program, drawn: random.Random, x: Value, _: list[Value]) -> Value:
    n, c, h, w = x[1]
    step = 1 + h // 5
    text, shape = drawn.choice(
        (
            ("nn.transpose {} perm [0, 1, 3, 2]", (n, c, w, h)),
            ("nn.flip {} axes [2]", x[1]),
            ("nn.pad {} low [0, 0, 1, 0] high [0, 0, 0, 2] mode edge", (n, c, h + 1, w + 2)),
            ("nn.pad {} low [0, 0, 0, 1] high [0, 1, 0, 0]", (n, c + 1, h, w + 1)),
            ("nn.resize_nearest {} scales [1.0, 1.0, 2.0, 1.0]", (n, c, 2 * h, w)),
            (f"nn.slice {{}} starts [0, 0, 0, 0] stops [9, 99, 99, 99] steps [1, 1, {step}, 1]",
             (n, c, -(-h // step), w)),
        )
    )  # fmt: skip
    return p.op(text, _given(x), uniform(shape, x[2]), keep=False), shape, x[2]


def _clamp(p: Program, drawn: random.Random, x: Value, _: list[Value]) -> Value:
    return p.op("nn.relu {}", _given(x), _kind(x), keep=False), x[1], x[2]


def _head(p: Program, drawn: random.Random, x: Value) -> None:
    n, c, *_ = x[1]
    params = _params(drawn)
    pooled = p.op("nn.global_avg_pool2d {}", _given(x), uniform((n, c, 1, 1), params), keep=False)
    flat = p.op("nn.flatten {} axis 1", [(pooled, uniform((n, c, 1, 1), params))],
                uniform((n, c), params), keep=False)  # fmt: skip
    classes, q = drawn.randint(2, 7), "i8:f32, 0.02"
    weight = p.constant((classes, c), q)
    logits = "i8:f32, 0.1:3"
    scores = p.op("nn.fully_connected {}, {}", [(flat, uniform((n, c), params)),
                  (weight, uniform((classes, c), q))], uniform((n, classes), logits))  # fmt: skip
    if drawn.random() < 0.5:
        p.op("nn.softmax {} axis 1", [(scores, uniform((n, classes), logits))],
             uniform((n, classes), "i8:f32, 0.00390625:-128"))  # fmt: skip
    # What is in the middle must be equal too.
    p.results.append((x[0], _kind(x)))


def main() -> int:
    import time

    from engine_support import READS, agree

    from qdialect.errors import QError

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first (default: 0)")
    parser.add_argument("--to", choices=("tosa", "linalg"), default="tosa")
    parser.add_argument("--engine", action="append", choices=READS["tosa"])
    given = parser.parse_args()
    bad = 0
    for engine in given.engine or READS[given.to]:
        if engine not in READS[given.to]:
            parser.error(f"{engine} does not read {given.to}")
        elements, wrong, began = 0, list[str](), time.monotonic()
        for seed in range(given.first, given.first + given.count):
            try:
                elements += agree(network(seed), engine, to=given.to, target="generic")
            except (AssertionError, QError) as error:
                wrong.append(f"  network {seed}: {str(error).splitlines()[0]}")
        equal, seconds = given.count - len(wrong), time.monotonic() - began
        print(
            f"{engine}, {given.to}: {equal} of {given.count} networks equal, {elements} elements, "
            f"{seconds:.0f} s",
            *wrong,
            sep="\n",
            flush=True,
        )
        bad += len(wrong)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
