"""Bytecode that is damaged or made to hurt: one error with the byte, at once."""

from __future__ import annotations

import random
import time

import pytest
from xdsl.dialects.builtin import ModuleOp

from qdialect.errors import InputError, QError
from qdialect.ir.context import QContext, new_context
from qdialect.plugins.mlir.bytecode.emitter import number, section
from qdialect.plugins.mlir.bytecode.layout import MAGIC, Attr, Section, Type
from qdialect.plugins.mlir.read import bytecode_module, read_module
from qdialect.plugins.mlir.write import bytecode
from tests.generators.sized import GRAPHS

TEXT = """
func.func @f(%a: tensor<4x!quant.uniform<i8:f32, 0.1:3>>, %n: i1) -> tensor<4xf32> {
  %y = quant.dcast %a {k = [1, dense<1.0> : tensor<4xf32>]}
      : tensor<4x!quant.uniform<i8:f32, 0.1:3>>
      to tensor<4xf32> loc(fused["a":1:2, "b"])
  cf.cond_br %n, ^a(%y : tensor<4xf32>), ^a(%y : tensor<4xf32>)
^a(%x: tensor<4xf32>):
  return %x : tensor<4xf32>
}
"""


def _data(module: ModuleOp, ctx: QContext, version: int = 4) -> bytes:
    return b"".join(bytes(piece) for piece in bytecode(module, ctx, version=version))


def _error(data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        bytecode_module(data, new_context(), "bad.mlirbc")
    assert caught.value.code == "bad-bytecode"
    assert str(caught.value.where) == "bad.mlirbc"
    return caught.value.message


def test_bad_files_are_told() -> None:
    ctx = new_context()
    data = _data(read_module(TEXT, ctx), ctx)
    assert "does not begin like MLIR bytecode" in _error(b"ML")
    assert "version 7 is newer than 6" in _error(MAGIC + number(7) + data[5:])
    assert "has no end" in _error(data[:9])
    assert "(byte " in _error(data[:-7])
    assert "byte" in _error(data + b"x")


@pytest.mark.parametrize("version", [0, 2, 4, 6])
def test_truncated_files(version: int) -> None:
    ctx = new_context()
    data = _data(read_module(TEXT, ctx), ctx, version)
    for length in range(0, len(data), 3):
        _error(data[:length])


def test_hostile_files() -> None:
    """Whatever is in a file: an error, or a module."""
    chance = random.Random(10)
    ctx = new_context()
    seeds = [_data(GRAPHS["residual"](12, "quantized"), ctx)]
    seeds += [_data(read_module(TEXT, ctx), ctx, version) for version in (1, 4, 6)]
    errors = 0
    for turn in range(300):
        changed = bytearray(seeds[turn % len(seeds)])
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(5, len(changed))
            changed[place] = chance.choice([0, 1, 2, 255, chance.randrange(256)])
        try:
            bytecode_module(bytes(changed), new_context(), "bad.mlirbc")
        except QError:
            errors += 1
    assert errors > 100


def _file(attributes: list[bytes], types: list[bytes], code: bytes) -> bytes:
    """A file of one dialect, builtin, with these entries, and one op name, `module`."""
    offsets = number(len(attributes)) + number(len(types))
    for entries in (attributes, types):
        if entries:
            sizes = b"".join(number(len(entry) << 1 | 1) for entry in entries)
            offsets += number(0) + number(len(entries)) + sizes
    texts = [b"builtin\0", b"module\0"]
    strings = number(2) + b"".join(number(len(text)) for text in reversed(texts))
    dialects = number(1) + number(0 << 1) + number(1) + number(0) + number(1) + number(1)
    return b"".join(
        (
            MAGIC + number(4) + b"\0",
            section(Section.DIALECTS, dialects),
            section(Section.ATTRIBUTE_OFFSETS, offsets),
            section(Section.ATTRIBUTES, b"".join(attributes + types)),
            section(Section.IR, code),
            section(Section.STRINGS, strings + b"".join(texts)),
        )
    )


UNKNOWN = number(Attr.UNKNOWN_LOC)


def test_entries_that_multiply() -> None:
    """Each list names the one before twice."""
    lists = [UNKNOWN, number(Attr.UNIT)]
    for index in range(1, 60):
        lists.append(number(Attr.ARRAY) + number(2) + number(index) * 2)
    code = number(1 << 1) + number(0) + b"\x01" + number(0) + number(len(lists))
    lists.append(number(Attr.ARRAY) + number(1) + number(len(lists) - 1))
    start = time.monotonic()
    assert "stands for more than" in _error(_file(lists, [], code))
    assert time.monotonic() - start < 5


def test_entries_in_a_circle() -> None:
    circle = number(Attr.ARRAY) + number(1) + number(1)
    code = number(1 << 1) + number(0) + b"\x01" + number(0) + number(1)
    assert "nested" in _error(_file([UNKNOWN, circle], [], code))


def test_counts_that_cannot_be() -> None:
    huge = number((1 << 64) - 1)
    for code in (
        huge,
        number(1 << 1) + number(0) + b"\x02" + number(0) + huge,
        number(1 << 1) + number(0) + b"\x04" + number(0) + huge,
        number(1 << 1) + number(0) + b"\x08" + number(0) + huge,
        number(1 << 1) + number(0) + b"\x20" + number(0) + huge,
        number(1 << 1) + number(0) + b"\x10" + number(0) + huge,
        number(1 << 1) + number(0) + b"\x10" + number(0) + number(2) + huge,
        number(1 << 1) + number(0) + b"\x10" + number(0) + number(2) + number(1) + huge,
    ):
        _error(_file([UNKNOWN], [], code))


def test_splats_that_are_too_large() -> None:
    shape = number(Type.TENSOR) + number(2) + number(1 << 33) * 2 + number(1)
    splat = number(Attr.DENSE) + number(0) + number(4) + bytes(4)
    code = number(1 << 1) + number(0) + b"\x01" + number(0) + number(1)
    assert "too large" in _error(_file([UNKNOWN, splat], [shape, number(Type.F32)], code))


def test_ops_nested_too_deep() -> None:
    inner = number(0) + b"\x00" + number(0)
    for _ in range(3000):
        inner = (
            number(0) + b"\x10" + number(0) + number(2) + number(1) + number(0) + number(2) + inner
        )
    assert "nested too deeply" in _error(_file([UNKNOWN], [], number(2) + inner))
