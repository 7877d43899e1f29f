"""What is computed when the program is read: tensors made of numbers, and views of constants.

    arange(4) -> view [4, 1] -> le with arange(4) -> a mask, which is a constant of the module

Parameters are left as they are: their names are the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.plugins.torch.program import ELEMENT_TYPES, Node, Ref, Weight
from qdialect.plugins.torch.read.builder import static
from qdialect.plugins.torch.read.rows import references

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.torch.read.importer import Importer

_MOST = 1 << 20
"""Elements of a tensor that is computed when the program is read."""

_UNIFORM = 1 << 12
"""Elements of a constant that has one number everywhere; larger ones are expanded by the run."""

_NO_ARITHMETIC = frozenset({"bf16", "f8E4M3FN", "f8E5M2"})
"""Types that numpy has the bits of only."""


def fold(imp: Importer, node: Node) -> bool:
    """Whether the result of the node is known now; then it is among `imp.weights`."""
    function = _FUNCTIONS.get(node.op)
    if function is None or len(node.results) != 1 or not isinstance(node.results[0], str):
        return False
    name = node.results[0]
    kind = imp.program.graph.tensors.get(name)
    if kind is None or kind.code not in ELEMENT_TYPES:
        return False
    shape = static(kind.shape)
    size = 1
    for n in shape:
        size *= n
    if DYNAMIC in shape or size > _MOST or not _is_known(imp, node):
        return False
    if _has_bits(imp, node, kind.code) and node.op not in _VIEWS:
        return False
    array = function(_Arguments(imp, node), shape)
    if array is None or array.shape != shape:
        return False
    if size > _UNIFORM and not any(array.strides):
        return False
    imp.weights[name] = Weight(kind.code, _converted(array, ELEMENT_TYPES[kind.code]))
    return True


def _is_known(imp: Importer, node: Node) -> bool:
    for key, argument in node.arguments.items():
        if key == "self" and node.op in _LIKE:
            continue
        for name in references(argument):
            if name in imp.weights:
                if name in imp.parameters and node.op not in _IDENTITIES:
                    return False
            elif name not in imp.numbers or imp.numbers[name].number is None:
                return False
    return True


def _has_bits(imp: Importer, node: Node, code: int) -> bool:
    names = [name for argument in node.arguments.values() for name in references(argument)]
    codes = [imp.weights[name].code for name in names if name in imp.weights]
    return any(ELEMENT_TYPES.get(c, "") in _NO_ARITHMETIC for c in (*codes, code))


def _converted(array: NDArray[Any], element: str) -> NDArray[Any]:
    import numpy as np

    if element in _NO_ARITHMETIC:
        return array
    kinds = {"i1": "?", "complex<f32>": "c8", "complex<f64>": "c16"}
    width = element.lstrip("uif")
    name = kinds.get(element) or f"{element[0]}{int(width) // 8}"
    with np.errstate(all="ignore"):
        return array.astype(np.dtype(name), copy=False)


class _Arguments:
    """The arguments of a node as numpy takes them."""

    def __init__(self, imp: Importer, node: Node) -> None:
        self._imp = imp
        self._node = node

    def __call__(self, name: str, default: Any = None) -> Any:
        """An argument: an array, a number, or a list of numbers."""
        value = self._node.arguments.get(name, default)
        if isinstance(value, Ref):
            known = self._imp.weights.get(value.name)
            return known.array if known is not None else self._imp.integer(value)
        if isinstance(value, list):
            return [self._imp.integer(v) if isinstance(v, Ref) else v for v in value]  # pyright: ignore[reportUnknownVariableType]
        return value

    def operands(self) -> list[Any]:
        """`self` and `other`, in the type that PyTorch computes in."""
        import numpy as np

        from qdialect.ir.ops.constants import element_name
        from qdialect.plugins.torch.read.promotion import common_element

        given = [self._node.arguments[name] for name in ("self", "other")]
        name = element_name(common_element(self._imp, given))
        return [_converted(np.asarray(self(n)), name) for n in ("self", "other")]


Shape = tuple[int, ...]
Function = Callable[[_Arguments, Shape], "NDArray[Any] | None"]


def _full(value: float | None = None) -> Function:
    def function(a: _Arguments, shape: Shape) -> NDArray[Any]:
        import numpy as np

        number = value if value is not None else a("fill_value", a("value", a("s")))
        return np.broadcast_to(np.array(number), shape)

    return function


def _arange(a: _Arguments, shape: Shape) -> NDArray[Any]:
    import numpy as np

    start, step = a("start", 0), a("step", 1)
    return start + step * np.arange(shape[0])


def _linspace(a: _Arguments, shape: Shape) -> NDArray[Any] | None:
    """As PyTorch computes it: from the start in the first half, from the end in the second."""
    import numpy as np

    start, end, steps = a("start"), a("end"), shape[0]
    if isinstance(start, np.ndarray) or isinstance(end, np.ndarray) or steps < 2:
        return None
    step, k = np.float32((end - start) / (steps - 1)), np.arange(steps)
    up = np.float32(start) + step * k.astype(np.float32)
    down = np.float32(end) - step * (steps - 1 - k).astype(np.float32)
    return np.where(k < steps // 2, up, down)


def _eye(a: _Arguments, shape: Shape) -> NDArray[Any]:
    import numpy as np

    return np.eye(shape[0], shape[1])


def _reshaped(a: _Arguments, shape: Shape) -> NDArray[Any]:
    return a("self").reshape(shape)


def _expanded(a: _Arguments, shape: Shape) -> NDArray[Any]:
    import numpy as np

    return np.broadcast_to(a("self"), shape)


def _permuted(a: _Arguments, shape: Shape) -> NDArray[Any]:
    return a("self").transpose(a("dims"))


def _transposed(a: _Arguments, shape: Shape) -> NDArray[Any]:
    array = a("self")
    return array.swapaxes(a("dim0", 0), a("dim1", 1)) if array.ndim > 1 else array


def _same(a: _Arguments, shape: Shape) -> NDArray[Any]:
    return a("self")


def _binary(name: str) -> Function:
    def function(a: _Arguments, shape: Shape) -> NDArray[Any] | None:
        import numpy as np

        if a("alpha", 1) != 1 or a("rounding_mode") is not None:
            return None
        x, y = a.operands()
        if name in ("add", "subtract", "true_divide") and x.dtype.kind in "bc":
            return None
        if name == "true_divide" and x.dtype.kind != "f":
            x, y = x.astype(np.float32), y.astype(np.float32)
        with np.errstate(all="ignore"):
            return getattr(np, name)(x, y)

    return function


def _select(a: _Arguments, shape: Shape) -> NDArray[Any]:
    import numpy as np

    return np.take(a("self"), a("index"), a("dim", 0))


def _slice(a: _Arguments, shape: Shape) -> NDArray[Any]:
    array, d = a("self"), a("dim", 0)
    places = [slice(None)] * array.ndim
    places[d] = slice(a("start") or 0, a("end"), a("step", 1))
    return array[tuple(places)]


_VIEWS: Mapping[str, Function] = {
    **dict.fromkeys(
        (
            f"aten.{name}"
            for name in (
                "view",
                "reshape",
                "flatten",
                "unflatten",
                "squeeze",
                "unsqueeze",
                "_unsafe_view",
                "view_copy",
                "unsqueeze_copy",
            )
        ),
        _reshaped,
    ),
    "aten.expand": _expanded,
    "aten.permute": _permuted,
    "aten.transpose": _transposed,
    "aten.t": _transposed,
    "aten.select": _select,
    "aten.slice": _slice,
}

_IDENTITIES: Mapping[str, Function] = dict.fromkeys(
    (
        f"aten.{name}"
        for name in ("alias", "clone", "contiguous", "detach", "lift_fresh_copy", "lift", "to")
    ),
    _same,
)

_LIKE = frozenset(
    f"aten.{name}"
    for kind in ("full", "zeros", "ones", "empty")
    for name in (f"{kind}_like", f"new_{kind}")
) | {"aten.fill", "aten.zero"}
"""Ops that read no element of `self`."""

_FUNCTIONS: Mapping[str, Function] = {
    **_VIEWS,
    **_IDENTITIES,
    "aten._to_copy": _same,
    "aten.type_as": _same,
    "aten.arange": _arange,
    "aten.eye": _eye,
    "aten.linspace": _linspace,
    **dict.fromkeys(("aten.full", "aten.full_like", "aten.new_full", "aten.fill"), _full()),
    "aten.scalar_tensor": _full(),
    **dict.fromkeys(("aten.zeros", "aten.zeros_like", "aten.new_zeros", "aten.zero"), _full(0)),
    **dict.fromkeys(("aten.ones", "aten.ones_like", "aten.new_ones"), _full(1)),
    **dict.fromkeys(("aten.empty", "aten.empty_like", "aten.new_empty"), _full(0)),
    "aten.add": _binary("add"),
    "aten.sub": _binary("subtract"),
    "aten.mul": _binary("multiply"),
    "aten.div": _binary("true_divide"),
    "aten.eq": _binary("equal"),
    "aten.ne": _binary("not_equal"),
    "aten.lt": _binary("less"),
    "aten.le": _binary("less_equal"),
    "aten.gt": _binary("greater"),
    "aten.ge": _binary("greater_equal"),
    "aten.logical_and": _binary("logical_and"),
    "aten.bitwise_and": _binary("bitwise_and"),
}
