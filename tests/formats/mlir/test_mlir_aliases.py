"""Aliases in MLIR text that stand for more than the text is long."""

from __future__ import annotations

import pytest

from qdialect.errors import InputError
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.mlir.write import module_text


def doubled(sigil: str, first: str, each: str, last: str, count: int = 40) -> str:
    lines = [f"{sigil}a0 = {first}"]
    lines += [f"{sigil}a{i} = " + each.replace("A", f"{sigil}a{i - 1}") for i in range(1, count)]
    return "\n".join([*lines, last.replace("A", f"{sigil}a{count - 1}")])


MODULE = "module attributes {a = A} {}"
USES = "func.func @f() {\n" + "".join(
    f"  %{i} = arith.constant {{a = A}} 1 : i32\n" for i in range(500)
)

EXPLOSIONS = {
    "attributes": doubled("#", "[1, 1]", "[A, A]", MODULE),
    "entries": doubled("#", "{x = 1}", "{x = A, y = A}", MODULE),
    "types": doubled("!", "tuple<i32>", "tuple<A, A>", "func.func private @f(A)"),
    "types of functions": doubled("!", "i32", "(A) -> A", MODULE),
    "types inside of attributes": doubled(
        "#", "[1]", "[tensor<1xf32, A>, tensor<1xf32, A>]", MODULE
    ),
    "locations": doubled("#", 'loc("x":1:1)', "loc(fused[A, A])", "module {} loc(A)"),
    "before their definitions": "\n".join(
        reversed(doubled("#", "[1]", "[A, A]", MODULE).split("\n"))
    ),
    "nesting": doubled("#", "[1]", "[A]", MODULE, 5000),
    "many uses": doubled("#", "[1]", "[A, A]", f"{USES}  return\n}}\n", 16),
}


@pytest.mark.parametrize("name", EXPLOSIONS)
def test_an_error_in_place_of_an_explosion(name: str) -> None:
    with pytest.raises(InputError, match=r"stands? for more than|nested too deeply") as caught:
        read_module(EXPLOSIONS[name], new_context(), "x.mlir")
    assert caught.value.where is not None
    assert caught.value.where.line is not None


def test_aliases_of_usual_size_are_read() -> None:
    ctx = new_context()
    module = read_module(doubled("#", "[7, 7]", "[A, A]", MODULE, 12), ctx, "x.mlir")
    assert module_text(module, ctx).count("7") == 1 << 12
    text = doubled("#", '["x"]', "[A, A]", f"{USES}  return\n}}\n", 9)
    assert module_text(read_module(text, ctx, "x.mlir"), ctx).count('"x"') == 500 << 8
