"""Ops of StableHLO that run bodies: reductions, sorts, loops and branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import AnyFloat, ComplexType, IntegerType, TensorType, i1
from xdsl.ir import Attribute

from qdialect.plugins.mlir.upstream.inference.quantized import is_quantized, params_of
from qdialect.plugins.mlir.upstream.inference.view import (
    Inferred,
    Results,
    Rule,
    View,
    demand,
    dimensions,
    must_be,
    must_fit,
    types,
)
from qdialect.plugins.mlir.upstream.inference.windows import Window
from qdialect.plugins.mlir.upstream.shapes import (
    Shape,
    element_or_self,
    fit,
    have_fitting_shapes,
    listed,
    merged,
    shape_of,
)
from qdialect.plugins.mlir.upstream.traits import inferred_as

Kinds = Sequence[Attribute]


def _are_one(a: Attribute, b: Attribute, *, any_float: bool = False) -> bool:
    """Whether types may be one; floats of any precision are on request."""
    x, y = element_or_self(a), element_or_self(b)
    floats = any_float and isinstance(x, AnyFloat) and isinstance(y, AnyFloat)
    return have_fitting_shapes([a, b]) and (x == y or floats)


def _promotes(a: Attribute, b: Attribute) -> bool:
    """Whether elements may be summed in another type: of their kind, and no narrower."""
    x, y = element_or_self(a), element_or_self(b)
    if is_quantized(x) and is_quantized(y):
        same = params_of(x).expressed == params_of(y).expressed
        return same and params_of(x).storage.width <= params_of(y).storage.width
    if isinstance(x, IntegerType) and isinstance(y, IntegerType):
        return x.bitwidth <= y.bitwidth
    return any(isinstance(x, kind) and isinstance(y, kind) for kind in (AnyFloat, ComplexType))


def scalar(kind: Attribute) -> Attribute:
    """One element of a type."""
    return TensorType(element_or_self(kind), [])


def reduced(v: View, number: int, inputs: Kinds, initial: Kinds, shape: Shape = ()) -> Kinds:
    """What a body returns, which combines two values for each input; `shape`: that of which its
    arguments may have dimensions."""
    taken, returned, count = v.taken(number), v.returned(number), len(inputs)
    must_be("number of arguments of the body", len(taken), 2 * count)
    must_be("number of values that the body returns", len(returned), count)
    for n, (given, start, found) in enumerate(zip(inputs, initial, returned, strict=True)):
        carried, other = taken[n], taken[count + n]
        same = _are_one(found, carried) and _are_one(found, other, any_float=True)
        demand(same, f"the body returns {found} for {carried} and {other}")
        begins = fit(shape_of(start), shape_of(found)) and _promotes(start, found)
        demand(begins, f"the body returns {found}, but begins with {start}")
        demand(_promotes(given, other), f"the body takes {other} for elements of {given}")
        places = iter(shape)
        parts = all(any(fit((n,), (m,)) for m in places) for n in shape_of(other) or ())
        demand(parts, f"the body takes {other} for parts of {listed(shape)}")
    return returned


def _of_one_shape(kinds: Kinds) -> Shape:
    demand(kinds, "must have at least one operand")
    demand(have_fitting_shapes(kinds), f"inputs must have one shape, but are {types(kinds)}")
    return merged(*map(shape_of, kinds)) or ()


def _reduce(v: View) -> Results:
    inputs, dims = v.kinds("inputs"), v.integers("dimensions")
    dimensions("dimensions", dims, len(_of_one_shape(inputs)))
    rest = tuple(n for d, n in enumerate(shape_of(inputs[0]) or ()) if d not in dims)
    returned = reduced(v, 0, inputs, v.kinds("init_values"), rest)
    return [Inferred(rest, element_or_self(kind)) for kind in returned]


def _windows(v: View, rank: int) -> Window:
    (size,) = v.counted(rank, "window_dimensions")
    return Window.of(v, size, ("base_dilations", "window_dilations"))


def _reduce_window(v: View) -> Results:
    inputs = v.kinds("inputs")
    window = _windows(v, len(_of_one_shape(inputs)))
    returned = reduced(v, 0, inputs, v.kinds("init_values"), tuple(window.size))
    return [
        Inferred(window.extents(shape_of(given) or ()), element_or_self(kind))
        for given, kind in zip(inputs, returned, strict=True)
    ]


def _select_and_scatter(v: View) -> Results:
    operand, shape, source = v.kind("operand"), v.ranked("operand"), v.kind("source")
    must_be("number of arguments of select", len(v.taken(0)), 2)
    same = all(_are_one(scalar(operand), kind, any_float=True) for kind in v.taken(0))
    demand(same, f"select must take two of {scalar(operand)}, not {types(v.taken(0))}")
    must_be("what select returns", types(v.returned(0)), types([scalar(i1)]))
    returned = reduced(v, 1, [scalar(source)], [v.kind("init_value")])
    must_fit("source", shape_of(source), _windows(v, len(shape)).extents(shape))
    demand(
        _are_one(scalar(operand), scalar(source), any_float=True),
        f"source must have elements of {operand}, but is {source}",
    )
    return [Inferred(shape, element_or_self(returned[0]))]


def _all_reduce(v: View) -> Results:
    found = [reduced(v, 0, [kind], [scalar(kind)]) for kind in v.kinds("operands")]
    pairs = zip(v.kinds("operands"), found, strict=True)
    return [Inferred(shape_of(kind), element_or_self(of[0])) for kind, of in pairs]


def _reduce_scatter(v: View) -> Results:
    kind, d, part = v.kind("operand"), v.integer("scatter_dimension"), v.ranked("_0")
    (returned,) = reduced(v, 0, [kind], [scalar(kind)])
    shape = shape_of(kind) or ()
    must_be("rank of the result", len(part), len(shape))
    dimensions("scatter_dimension", [d], len(shape))
    divides = shape[d] and part[d] and (min(shape[d], part[d]) < 0 or shape[d] % part[d] == 0)
    demand(divides, f"dimension {d} must be a part of {shape[d]}, but is {part[d]}")
    return [Inferred((*shape[:d], -1, *shape[d + 1 :]), element_or_self(returned))]


def _sort(v: View) -> Results:
    inputs, d = v.kinds("inputs"), v.integer("dimension", -1)
    rank = len(_of_one_shape(inputs))
    dimensions("dimension", [d + rank if d < 0 else d], rank)
    expected = [scalar(kind) for kind in inputs for _ in (0, 1)]
    must_be("arguments of comparator", types(v.taken(0)), types(expected))
    must_be("what comparator returns", types(v.returned(0)), types([scalar(i1)]))
    return [Inferred(shape_of(kind), element_or_self(kind)) for kind in inputs]


def _map(v: View) -> Results:
    inputs, returned = v.kinds("inputs"), v.returned(0)
    must_be("arguments of the body", types(v.taken(0)), types([*map(scalar, inputs)]))
    one = len(returned) == 1 and shape_of(returned[0]) == ()
    demand(one, f"the body must return one scalar, but returns {types(returned)}")
    shape = _of_one_shape(inputs)
    must_be("dimensions", [*v.integers("dimensions")], list(range(len(shape))))
    return [Inferred(shape, element_or_self(returned[0]))]


def _agree(what: str, found: Kinds, expected: Kinds) -> None:
    same = len(found) == len(expected) and all(
        inferred_as(x) == inferred_as(y) and have_fitting_shapes([x, y])
        for x, y in zip(found, expected, strict=True)
    )
    demand(same, f"{what} must be {types(expected)}, but are {types(found)}")


def _while(v: View) -> Results:
    kinds = v.kinds("operand")
    for number, name in enumerate(("cond", "body")):
        _agree(f"arguments of {name}", v.taken(number), kinds)
    _agree("values that body returns", v.returned(1), kinds)
    must_be("what cond returns", types(v.returned(0)), types([scalar(i1)]))
    return [Inferred(shape_of(kind), element_or_self(kind)) for kind in kinds]


def _branches(v: View) -> Results:
    demand(v.op.regions, "must have at least one branch")
    must_fit("what chooses a branch", shape_of(v.op.operands[0].type), ())
    results = [v.returned(number) for number in range(len(v.op.regions))]
    for number, found in enumerate(results):
        must_be(f"number of arguments of branch {number}", len(v.taken(number)), 0)
        _agree(f"values that branch {number} returns", found, results[0])
    return [Inferred(_least(of), element_or_self(of[0])) for of in zip(*results, strict=True)]


def _least(kinds: Kinds) -> Shape | None:
    shapes = [shape for kind in kinds if (shape := shape_of(kind)) is not None]
    extents = zip(*shapes, strict=True)
    return tuple(n[0] if len({*n}) == 1 else -1 for n in extents) if shapes else None


RULES: Mapping[str, Rule] = {
    "all_reduce": _all_reduce,
    "case": _branches,
    "if": _branches,
    "map": _map,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "reduce_window": _reduce_window,
    "select_and_scatter": _select_and_scatter,
    "sort": _sort,
    "while": _while,
}
