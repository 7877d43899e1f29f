"""Random modules in MLIR's generic form, made of the grammar alone.

Nothing here knows rules of ours: ops of unregistered dialects with operands, properties, nested
regions, branches and forward references; attributes and types of every builtin kind, nested at
random; locations of every kind. mlir-opt accepts every module.
"""

# pyright: basic
from __future__ import annotations

import random

_INTEGERS = ("i1", "i8", "i32", "i64", "si7", "ui16", "i128", "index")
_FLOATS = ("f16", "bf16", "f32", "f64", "tf32", "f8E4M3FN", "f8E5M2", "f80", "f128")
_NAMES = ("a", "b.c", '"odd name"', "x_1", '"1st"')
_STRINGS = ('"plain"', '"esc \\22 \\\\ \\n"', '"bytes \\00\\FF"', '""', '"tüv"')
_BITS = {"f16": 4, "bf16": 4, "f32": 8, "f64": 16}


class GenericModules:
    """Modules of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0

    def module(self) -> str:
        """The text of one module."""
        self._count = 0
        body = self._block([], 3, self._random.randrange(1, 6), graph=True)
        return "\n".join(body) + "\n"

    def _one(self, *makers):
        return self._random.choice(makers)()

    def _several(self, make, most: int = 3) -> str:
        return ", ".join(make() for _ in range(self._random.randrange(most + 1)))

    # -- ops -------------------------------------------------------------------

    def _block(self, values, depth: int, length: int, graph: bool = False):
        """Lines of ops; `values` are the names and types of what they may use."""
        values = list(values)
        lines: list[str] = []
        for _ in range(length):
            lines += self._op(values, depth)
        return lines

    def _op(self, values, depth: int, successors: str = "") -> list[str]:
        choose = self._random
        count = choose.choice((0, 1, 1, 2, 3)) if not successors else 0
        kinds = [self._type(1) for _ in range(count)]
        used = [choose.choice(values) for _ in range(choose.randrange(3))] if values else []
        name = f"%{choose.choice(('v', ''))}{self._count}"
        self._count += 1
        left = ""
        if count:
            left = f"{name} = " if count == 1 else f"{name}:{count} = "
        operands = ", ".join(value for value, _ in used)
        properties = f" <{self._dictionary(2)}>" if choose.random() < 0.3 else ""
        properties = "" if properties == " <{}>" else properties
        attributes = f" {self._dictionary(3)}" if choose.random() < 0.7 else ""
        regions = self._regions(values, depth) if depth and choose.random() < 0.3 else ""
        inputs = ", ".join(kind for _, kind in used)
        outputs = f"({', '.join(kinds)})"
        location = f" loc({self._location(2)})" if choose.random() < 0.4 else ""
        title = choose.choice(("foo.op", "foo.bar.baz", "other.thing", "x.y"))
        line = (
            f'{left}"{title}"({operands}){successors}{properties}{regions}{attributes} : '
            f"({inputs}) -> {outputs}{location}"
        )
        if count == 1:
            values.append((name, kinds[0]))
        else:
            values += [(f"{name}#{index}", kind) for index, kind in enumerate(kinds)]
        return [line]

    def _regions(self, values, depth: int) -> str:
        made = []
        for _ in range(self._random.randrange(1, 3)):
            lines: list[str] = []
            blocks = self._random.choice((0, 1, 1, 3))
            label = self._count
            for index in range(blocks):
                self._count += 1
                arguments = [
                    (f"%arg{self._count}_{n}", self._type(1))
                    for n in range(self._random.randrange(3))
                ]
                places = [
                    f" loc({self._location(1)})" if self._random.random() < 0.3 else ""
                    for _ in arguments
                ]
                texts = [
                    f"{name}: {kind}{place}"
                    for (name, kind), place in zip(arguments, places, strict=True)
                ]
                if index or arguments:
                    lines.append(f"^bb{label}_{index}({', '.join(texts)}):")
                inner = [*values, *arguments]
                lines += self._block(inner, depth - 1, self._random.randrange(1, 3))
                if blocks > 1:
                    target = [f"^bb{label}_{self._random.randrange(1, blocks)}"]
                    lines += self._op([*values, *arguments], 0, f"[{', '.join(target)}]")
            made.append("{\n" + "\n".join(lines) + "\n}")
        return f" ({', '.join(made)})"

    # -- types -----------------------------------------------------------------

    def _type(self, depth: int) -> str:
        scalars = (self._integer, self._float)
        if not depth:
            return self._one(*scalars)
        inner = lambda: self._type(depth - 1)  # noqa: E731
        return self._one(
            *scalars,
            lambda: f"tensor<{self._extents()}{self._scalar()}>",
            lambda: f"tensor<{self._extents()}{self._scalar()}, {self._attribute(0)}>",
            lambda: f"tensor<*x{self._scalar()}>",
            lambda: f"vector<{self._vector_extents()}{self._scalar()}>",
            lambda: f"memref<{self._extents()}{self._scalar()}>",
            lambda: f"memref<{self._extents()}{self._scalar()}, {self._space()}>",
            lambda: f"memref<2x?xf32, strided<[?, {self._number()}], offset: ?>>",
            lambda: f"memref<2x3xf32, {self._map(2)}>",
            lambda: f"memref<*x{self._scalar()}, {self._space()}>",
            lambda: f"tuple<{self._several(inner)}>",
            lambda: f"complex<{self._scalar()}>".replace("<index>", "<i8>"),
            lambda: f"({self._several(inner)}) -> ({self._several(inner)})",
            lambda: "none",
            lambda: f"!foo.{self._word()}",
            lambda: f"!foo.{self._word()}<{self._junk(2)}>",
            lambda: f"!foo<{self._word()} {self._junk(1)}>",
        )

    def _scalar(self) -> str:
        return self._one(self._integer, self._float)

    def _integer(self) -> str:
        return self._random.choice(_INTEGERS)

    def _float(self) -> str:
        return self._random.choice(_FLOATS)

    def _extents(self) -> str:
        return "".join(f"{self._random.choice(('?', 0, 1, 2, 17))}x" for _ in range(self._digit(4)))

    def _vector_extents(self) -> str:
        return "".join(f"{self._random.choice(('[4]', 1, 2, 3))}x" for _ in range(self._digit(3)))

    def _space(self) -> str:
        return self._random.choice(("3", "3 : i32", '"fast"'))

    def _digit(self, most: int) -> int:
        return self._random.randrange(most)

    def _word(self) -> str:
        return self._random.choice(("a", "thing", "t_1", "some.thing"))

    def _junk(self, depth: int) -> str:
        """Balanced text, which need not mean anything."""
        parts = ["x -> y", "1 : 2", '"> ]"', "a = b", "?", "-7", "@s", "%"]
        if depth:
            opening = self._random.choice(("<%s>", "(%s)", "[%s]", "{%s}"))
            parts.append(opening % self._junk(depth - 1))
        return " ".join(self._random.choice(parts) for _ in range(self._random.randrange(1, 3)))

    # -- attributes --------------------------------------------------------------

    def _dictionary(self, depth: int) -> str:
        names = self._random.sample(_NAMES, self._digit(4))
        entries = [
            name if self._random.random() < 0.2 else f"{name} = {self._attribute(depth)}"
            for name in names
        ]
        return f"{{{', '.join(entries)}}}"

    def _attribute(self, depth: int) -> str:
        if not depth:
            return self._one(self._number_attribute, self._string, self._symbol)
        inner = lambda: self._attribute(depth - 1)  # noqa: E731
        return self._one(
            self._number_attribute,
            self._string,
            self._symbol,
            lambda: self._type(depth),
            lambda: f"[{self._several(inner)}]",
            lambda: self._dictionary(depth - 1),
            lambda: self._dense(),
            lambda: self._array(),
            lambda: self._map(self._random.randrange(1, 3)),
            lambda: f"affine_set<(d0)[s0] : ({self._expression(2)} >= 0, d0 == {self._number()})>",
            lambda: f"sparse<[[0, {self._digit(3)}]], [{self._number()}]> : tensor<2x3xi32>",
            lambda: f"strided<[{self._number()}, ?], offset: {self._digit(9)}>",
            lambda: f"loc({self._location(1)})",
            lambda: f"#foo.{self._word()}<{self._junk(2)}>",
            lambda: f"#foo.{self._word()}<{self._junk(1)}> : {self._type(0)}",
            lambda: f"{self._string()} : {self._type(1)}",
            lambda: "unit",
        )

    def _number_attribute(self) -> str:
        if self._random.random() < 0.5:
            kind = self._random.choice(("i8", "i32", "i64", "si7", "index", "i128"))
            return f"{self._number()} : {kind}"
        kind = self._float()
        if kind in _BITS and self._random.random() < 0.5:
            return f"0x{self._random.getrandbits(4 * _BITS[kind]):0{_BITS[kind]}X} : {kind}"
        return f"{self._random.choice(('1.0', '-0.0', '2.5', '1.0e2', '-12.0'))} : {kind}"

    def _number(self) -> int:
        return self._random.choice((0, 1, -1, 5, -7, 63))

    def _string(self) -> str:
        return self._random.choice(_STRINGS)

    def _symbol(self) -> str:
        return self._random.choice(("@f", '@"odd name"', "@a::@b", '@"x\\22"::@y::@z'))

    def _dense(self) -> str:
        count = self._random.choice((0, 1, 2, 3))
        kind = self._random.choice(("i1", "i8", "i64", "index", "f32", "f64", "complex<f32>"))
        element = {
            "i1": lambda: self._random.choice(("true", "false")),
            "f32": lambda: self._random.choice(("1.0", "-2.5", "0x7FC00001", "0xFF800000")),
            "f64": lambda: self._random.choice(("1.0", "0.1", "0x7FF0000000000001")),
            "complex<f32>": lambda: "(1.0, 0x7F800000)",
        }.get(kind, lambda: str(self._number()))
        if not count:
            return f"dense<> : tensor<0x{kind}>"
        if self._random.random() < 0.3:
            return f"dense<{element()}> : tensor<2x{count}x{kind}>"
        row = ", ".join(element() for _ in range(count))
        return f"dense<[[{row}], [{row}]]> : tensor<2x{count}x{kind}>"

    def _array(self) -> str:
        kind = self._random.choice(("i1", "i8", "i16", "i32", "i64", "f32", "f64"))
        element = {
            "i1": lambda: "true",
            "f32": lambda: self._random.choice(("1.0", "0x7FC00000")),
            "f64": lambda: "-2.5",
        }.get(kind, lambda: str(self._number()))
        values = self._several(element)
        return f"array<{kind}{': ' if values else ''}{values}>"

    def _map(self, rank: int) -> str:
        results = ", ".join(self._expression(2) for _ in range(rank))
        return (
            f"affine_map<(d0, d1)[s0] -> ({results})>"
            if rank == 1
            else (f"affine_map<(d0, d1) -> (d{self._digit(2)}, d1 + {self._digit(9)})>")
        )

    def _expression(self, depth: int) -> str:
        if not depth:
            # No constants: where two meet, mlir-opt reads what it prints as another map.
            return self._random.choice(("d0", "s0"))
        left, right = self._expression(depth - 1), self._expression(depth - 1)
        return self._random.choice(
            (
                f"({left} + {right})",
                f"({left} - {right})",
                f"(d0 * s0 - {right})",
                f"-({left})",
                f"({left}) * 4",
                f"({left}) floordiv 3",
                f"({left}) mod s0",
                f"({left}) ceildiv 5",
            )
        )

    # -- locations -----------------------------------------------------------------

    def _location(self, depth: int) -> str:
        flat = (
            lambda: "unknown",
            lambda: f'"f.py":{self._digit(99)}:{self._digit(99)}',
            lambda: f'"f.py":{self._digit(9)}:{self._digit(9)} to {10 + self._digit(9)}:5',
            lambda: f'"f.py":4:{self._digit(9)} to :{10 + self._digit(9)}',
            lambda: f'"name {self._digit(9)}"',
        )
        if not depth:
            return self._one(*flat)
        inner = lambda: self._location(depth - 1)  # noqa: E731
        return self._one(
            *flat,
            lambda: f'"n"({inner()})',
            lambda: f"callsite({inner()} at {inner()})",
            lambda: f"fused[{inner()}, {inner()}]",
            lambda: f"fused<{self._attribute(1)}>[{inner()}, {inner()}]",
        )
