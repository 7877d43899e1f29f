"""Types of mixed operands: what PyTorch computes in, where the result does not say it.

Comparisons and a few others give i1 or something else than what they compute in.  A tensor with
dimensions wins over one without, and that over a Python number, unless its kind is lower:
bool < integer < float.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute, SSAValue

from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.torch.program import Ref

if TYPE_CHECKING:
    from qdialect.plugins.torch.read.importer import Importer

_FLOATS = (f16, bf16, f32, f64)
_INTEGERS = (i8, i16, i32, i64)


def promoted(imp: Importer, arguments: Sequence[Any]) -> list[SSAValue]:
    """The operands in the one type that PyTorch computes in."""
    element = common_element(imp, arguments)
    return [imp.cast(imp.value(argument, element), element) for argument in arguments]


def common_element(imp: Importer, arguments: Sequence[Any]) -> Attribute:
    """The type in which an op computes on these tensors and numbers."""
    found: list[Attribute | None] = [None, None, None]
    for argument in arguments:
        level, element = _level(imp, argument)
        known = found[level]
        found[level] = element if known is None else _wider(known, element)
    best: Attribute | None = None
    for element in found:
        if element is not None and (best is None or _kind(element) > _kind(best)):
            best = element
    assert best is not None
    return best


def _level(imp: Importer, argument: Any) -> tuple[int, Attribute]:
    """0 for a tensor with dimensions, 1 for one without, 2 for a number; and its type."""
    if isinstance(argument, Ref) and argument.name in imp.numbers:
        return 2, i64
    if isinstance(argument, Ref):
        element = imp.kind(argument)
        assert element is not None
        return (0 if imp.extents_of(argument) else 1), element
    return 2, i1 if isinstance(argument, bool) else i64 if isinstance(argument, int) else f32


def _kind(element: Attribute) -> int:
    return 2 if element in FLOATS else 0 if element == i1 else 1


def _wider(a: Attribute, b: Attribute) -> Attribute:
    """The type of a sum of both, of tensors of the same level."""
    if a == b:
        return a
    if _kind(a) != _kind(b):
        return a if _kind(a) > _kind(b) else b
    if a in FLOATS:
        return f32 if {a, b} == {f16, bf16} else max(a, b, key=_FLOATS.index)
    if a in _INTEGERS and b in _INTEGERS:
        return max(a, b, key=_INTEGERS.index)
    # ui8 and a signed type: the narrowest signed type that has all numbers of both.
    signed = a if a in _INTEGERS else b
    return i16 if signed == i8 else signed
