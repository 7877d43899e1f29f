"""Which `nn` op stands in which file, and all that is declared of them.

Defining an op takes long, so a family is imported when one of its ops is used. Which op
stands in which file is read from the files: a line `name = "nn.add"` in the class `AddOp`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from xdsl.ir import Dialect, Operation

    from qdialect.ir.behaviors import Behavior, BehaviorRegistry
    from qdialect.ir.ops.base import NNOp
    from qdialect.ir.ops.components import Components

FAMILIES = (
    "attention",
    "constants",
    "contraction",
    "dynamic",
    "elementwise",
    "functions",
    "indexing",
    "movement",
    "normalization",
    "ordering",
    "pooling",
    "recurrent",
    "reduction",
    "resize",
    "spatial_movement",
    "tables",
)
"""The files of ops."""

#: what else is found here, by file
_OTHERS: Mapping[str, str] = {
    "base": "NNOp shape_of tensor_type",
    "keys": "KEY keys_of",
    "constants": "BlobAttr constant_array constant_of make_constant",
    "contraction": "CONVOLUTIONS TRANSPOSED",
    "dynamic": "CODE DYNAMIC_CONVOLUTIONS DynamicOp",
    "pooling": "AVERAGE_POOLS GLOBAL_AVERAGE_POOLS MAX_POOLS AveragePoolOp WindowOp",
}


@cache
def files() -> dict[str, str]:
    """The file of each op, by its name and by that of its class, and of what else the package
    exports."""
    found = {name: file for file, names in _OTHERS.items() for name in names.split()}
    for family in FAMILIES:
        source = Path(__file__).with_name(f"{family}.py").read_text(encoding="utf-8")
        kind = ""
        for line in re.finditer(r'^class (\w+)|^    name = "(nn\.\w+)"', source, re.M):
            kind, op = line[1] or kind, line[2]
            if op and kind.endswith("Op"):
                found[op] = found[kind] = family
    return found


def module(family: str) -> Any:
    """The file of a family."""
    return import_module(f"qdialect.ir.ops.{family}")


@cache
def _ops_of(family: str) -> dict[str, type[Operation]]:
    scope = cast("dict[str, Any]", module(family).__dict__)
    kinds = {getattr(kind, "name", ""): kind for kind in scope.values()}
    return {name: kinds[name] for name in op_names() if files()[name] == family}


def find_op(name: str) -> type[Operation] | None:
    """The op `name` (`nn.add`) of this dialect, without the other families."""
    family = files().get(name)
    return None if family is None else _ops_of(family).get(name)


def op_names() -> list[str]:
    """The names of all ops, by family."""
    return [name for name in files() if name.startswith("nn.")]


def all_ops() -> Iterator[type[NNOp]]:
    """The ops that declare a behavior: all but constants."""
    for family in FAMILIES:
        yield from cast("list[type[NNOp]]", [*_ops_of(family).values()] * (family != "constants"))


def names_of(*kinds: type[Behavior]) -> list[str]:
    """The names of the ops whose behavior is of one of these kinds."""
    return [op.name for op in all_ops() if isinstance(op.behavior(), kinds)]


def functions() -> list[str]:
    """The names of the elementwise functions of one tensor."""
    return [op.name for op in all_ops() if op.behavior().pointwise is not None]


def default_behaviors() -> BehaviorRegistry:
    """A fresh registry of the declarations of the dialect, each made when it is asked for."""
    from qdialect.ir.behaviors import BehaviorRegistry

    return BehaviorRegistry([name for name in op_names() if name != "nn.constant"], _behavior_of)


def _behavior_of(name: str) -> Behavior | None:
    kind = None if name == "nn.constant" else find_op(name)
    return None if kind is None else cast("type[NNOp]", kind).behavior()


def default_components() -> dict[str, Components]:
    """The composites of the dialect, and what they are made of."""
    from qdialect.ir.ops.declare import components_of

    found = {kind.name: components_of(kind.name) for kind in all_ops()}
    return {name: components for name, components in found.items() if components is not None}


def dialect() -> Dialect:
    """The dialect with all ops, which imports all families."""
    from xdsl.ir import Dialect

    ops = [op for family in FAMILIES for op in _ops_of(family).values()]
    return Dialect("nn", ops, [module("constants").BlobAttr])
