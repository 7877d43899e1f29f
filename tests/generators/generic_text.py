"""Random modules as MLIR text in the generic form: ops that nobody knows, with every kind of
attribute, type, location, region, branch and use, all valid for mlir-opt with
`--allow-unregistered-dialect`.

    "t.a"(%0, %0) <{p = 1 : i8}> ({ ^bb0(%1: tensor<?x2xf32>): ... }) {k = [@f::@g]} : ...
"""

from __future__ import annotations

import random

_TYPES = (
    "i1", "i7", "i32", "i64", "i129", "si8", "ui16", "index", "f16", "bf16", "f32", "f64", "f80",
    "f128", "tf32", "f8E4M3FN", "f8E5M2", "f4E2M1FN", "none", "complex<f32>", "complex<i8>",
    "tensor<f32>", "tensor<?x3xf32>", "tensor<2x0xi8>", "tensor<*xbf16>", 'tensor<4xi8, "e">',
    "memref<2x?xf32>", "memref<4xi8, 3>", "memref<*xf32>", "memref<*xi1, 1 : i32>",
    "memref<4x4xf32, strided<[4, 1], offset: 2>>", "vector<4xf32>", "vector<[4]x2xi8>",
    "tuple<>", "tuple<i1, tuple<f32>>", "() -> ()", "(i1, f32) -> i8", "!t.opaque<a, <b>>",
    "!quant.uniform<i8:f32, 0.1:-3>", "tensor<4x!quant.uniform<u8<1:254>:f32, 2.5E-3:7>>",
    "tensor<2x3x!quant.uniform<i4:f16:1, {1.0,0.5:2,0.25:-1}>>", "!quant.any<i16<-9:9>:f32>",
    "!quant.any<u4>", "!quant.calibrated<f32<-0.998:1.2321>>",
    "tensor<4x4x!quant.uniform<i8:f32:{0:2, 1:2}, {{0.5:3, 0.25}, {2.0, 1.5:8}}>>",
)  # fmt: skip
_ATTRIBUTES = (
    "unit", "true", "false", "1", "-7 : i7", "255 : ui8", "-1 : si8", "0 : index", "-1 : index",
    "340282366920938463463374607431768211455 : i129", "9223372036854775807", "1.5", "-0.0 : f32",
    "0x7F800000 : f32", "0x7FC00000 : f32", "1.0 : bf16", "0.1 : f64", "6.5 : f16",
    '""', '"a b"', '"\\09\\22\\\\"', "@f", "@f::@g::@h", '@"a b"', "[]", "{}", "i8", "tensor<2xi8>",
    "[1, [2 : i8, unit], {a = 1.0}]", '{b = "x", a = [true]}', "array<i8>",
    "array<i1: true, false>",
    "array<i64: 1, -2>", "array<f32: 0.5, -1.0>", "dense<> : tensor<0xi8>",
    "dense<1> : tensor<i32>",
    "dense<[true, false, true]> : tensor<3xi1>", "dense<true> : tensor<20xi1>",
    "dense<[[1, -2], [3, 4]]> : tensor<2x2xi4>", "dense<-1> : tensor<3x3xi7>",
    "dense<[1, 2]> : tensor<2xi48>", "dense<0.5> : vector<4xf32>",
    "dense<[1.0, 2.0]> : tensor<2xbf16>",
    "dense<(1.0, -1.0)> : tensor<2xcomplex<f32>>", "dense<[3, 4]> : tensor<2xindex>",
    "affine_map<(d0, d1)[s0] -> (d0 + s0, d1 floordiv 2)>", "affine_set<(d0) : (d0 - 1 >= 0)>",
    "#t.x<1, [2]>", "strided<[?, 1], offset: ?>", "loc(unknown)",
)  # fmt: skip
_LOCATIONS = (
    "unknown", '"a.py":1:2', '"b c.py":100000:1', '"name"', '"name"("a.py":3:4)',
    'callsite("f"("a.py":1:1) at "b.py":2:2)', 'fused["a.py":1:2, "x"]', 'fused<"m">["a.py":1:2]',
    "fused<[1, {a = unit}]>[unknown, callsite(\"u\" at unknown)]",
)  # fmt: skip
_NAMES = ("a", "b", "c.d", "e", "long_name.of.an_op")


class _Module:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._values = 0
        self._blocks = 0
        self._left = self._random.randrange(1, 30)

    def text(self) -> str:
        """The whole module."""
        lines = self._ops([], depth=0)
        body = "\n".join(lines)
        return f'"builtin.module"() ({{\n{body}\n}}) : () -> (){self._location()}\n'

    def _pick(self, options: tuple[str, ...]) -> str:
        return self._random.choice(options)

    def _location(self) -> str:
        return f" loc({self._pick(_LOCATIONS)})" if self._random.random() < 0.7 else ""

    def _dictionary(self) -> str:
        names = self._random.sample(("k", "l", "t.m", "n", "zz"), self._random.randrange(4))
        return ", ".join(f"{name} = {self._pick(_ATTRIBUTES)}" for name in names)

    def _ops(self, seen: list[tuple[str, str]], depth: int) -> list[str]:
        seen = list(seen)
        lines: list[str] = []
        for _ in range(self._random.randrange(0 if depth else 1, 6)):
            if self._left <= 0:
                break
            self._left -= 1
            lines.append(self._op(seen, depth))
        return lines

    def _op(self, seen: list[tuple[str, str]], depth: int, successors: str = "") -> str:
        choose = self._random
        operands = (
            [choose.choice(seen) for _ in range(choose.choice((0, 1, 1, 2, 3)))] if seen else []
        )
        types = [self._pick(_TYPES) for _ in range(choose.choice((0, 1, 1, 1, 2, 4)))]
        regions: list[str] = []
        if depth < 3 and not successors:
            regions = [self._region(seen, depth) for _ in range(choose.choice((0, 0, 0, 0, 1, 2)))]
        results = ""
        if types:
            name = f"%v{self._values}"
            self._values += 1
            results = f"{name}:{len(types)} = " if len(types) > 1 else f"{name} = "
            for index, kind in enumerate(types):
                seen.append((f"{name}#{index}" if len(types) > 1 else name, kind))
        inherent = self._dictionary() if choose.random() < 0.25 else ""
        properties = f" <{{{inherent}}}>" if inherent else ""
        parts = [f'{results}"t.{self._pick(_NAMES)}"({", ".join(name for name, _ in operands)})']
        parts.append(f"{successors}{properties}")
        parts.append(f" ({', '.join(regions)})" if regions else "")
        dictionary = self._dictionary()
        parts.append(f" {{{dictionary}}}" if dictionary else "")
        inputs = ", ".join(kind for _, kind in operands)
        return f"{''.join(parts)} : ({inputs}) -> ({', '.join(types)}){self._location()}"

    def _region(self, seen: list[tuple[str, str]], depth: int) -> str:
        count = self._random.choice((0, 1, 1, 1, 2, 3))
        names = [f"^b{self._blocks + index}" for index in range(count)]
        self._blocks += count
        blocks: list[str] = []
        for name in names:
            inner = list(seen)
            arguments: list[str] = []
            for _ in range(self._random.choice((0, 0, 1, 2))):
                kind = self._pick(_TYPES)
                inner.append((f"%v{self._values}", kind))
                arguments.append(f"%v{self._values}: {kind}{self._location()}")
                self._values += 1
            lines = self._ops(inner, depth + 1)
            if count > 1:
                targets = self._random.sample(names[1:], self._random.randrange(1, count))
                lines.append(self._op(inner, depth + 1, f" [{', '.join(targets)}]"))
            header = f"{name}({', '.join(arguments)}):" if arguments else f"{name}:"
            blocks.append("\n".join((header, *lines)))
        return "{\n" + "\n".join(blocks) + "\n}"


def generic_text(seed: int) -> str:
    """The random module of a seed."""
    return _Module(seed).text()
