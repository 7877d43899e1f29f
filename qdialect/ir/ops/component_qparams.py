"""Component qparams on an op: `nn.qparams = {role = !quant.uniform<...>, ...}`.

Which roles an op has says its declaration (`components`); one that is a single piece has
the role `result`. docs/design/007-lowering.md has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from qdialect.algebra.qparams import Storage
from qdialect.ir.ops.component_keys import OTHERS
from qdialect.ir.ops.declare import known_components
from qdialect.ir.ops.keys import PIECE_KEYS, QPARAMS, texts
from qdialect.ir.quant import UniformType, element_type, quant_element

if TYPE_CHECKING:
    from qdialect.ir.ops.components import Components

RESULT = "result"


def component_types(op: Operation) -> dict[str, UniformType]:
    """The component qparams of a verified op, by role; empty without any."""
    given = op.attributes.get(QPARAMS)
    if not isinstance(given, DictionaryAttr):
        return {}
    return {role: kind for role, kind in given.data.items() if isinstance(kind, UniformType)}


def hold_types(op: Operation, types: Mapping[str, UniformType]) -> None:
    """Put component qparams on an op; nothing if there are none."""
    if types:
        op.attributes[QPARAMS] = DictionaryAttr(dict(types))


def result_role(op: Operation, components: Components | None) -> str:
    """The role under which an op holds the qparams of its own result, the first of several."""
    return all_roles(op, components)[-1]


def result_roles(op: Operation, components: Components | None) -> tuple[str, ...]:
    """The roles under which an op holds the qparams of its results, in order."""
    return (() if components is None else components.result_roles(op)) or (RESULT,)


def all_roles(op: Operation, components: Components | None) -> tuple[str, ...]:
    """The roles of an op, that of the result last."""
    return (() if components is None else components.roles_of(op)) or (RESULT,)


def qparams_refusal(op: Operation, table: Mapping[str, Components]) -> str | None:
    """What is wrong with the component qparams of an op, or None."""
    components = table.get(op.name)
    given = op.attributes.get(QPARAMS)
    if given is None:
        return None
    if not isinstance(given, DictionaryAttr):
        return f"{QPARAMS} must be a dictionary from role to quantized type"
    roles = all_roles(op, components)
    listed = ", ".join(roles)
    known = {*roles, *_inner_roles(op, table)}
    for role, kind in given.data.items():
        if role not in known:
            return f"{QPARAMS} names '{role}', but the roles are {_shown(role, roles, known)}"
        if not isinstance(kind, UniformType):
            return f"{QPARAMS} holds {kind} for '{role}', not a !quant.uniform"
    results = result_roles(op, components)
    missing = [role for role in roles if role not in given.data and role not in results]
    if missing and not given.data.keys() <= set(results):
        return f"{QPARAMS} lacks '{missing[0]}' (the roles are {listed})"
    return _result_refusal(op, [given.data.get(role) for role in results])


def _inner_roles(op: Operation, table: Mapping[str, Components]) -> tuple[str, ...]:
    components = table.get(op.name)
    return () if components is None else components.inner_roles(op, table)


def _shown(role: str, roles: Iterable[str], known: Iterable[str]) -> str:
    """The roles that `role` could have been: those of the same piece, if there are."""
    outer, _, _ = role.rpartition("/")
    near = [name for name in known if name.rpartition("/")[0] == outer] if outer else []
    return ", ".join(sorted(near) or roles)


def piece_keys_refusal(op: Operation, table: Mapping[str, Components]) -> str | None:
    """What is wrong with the keys that pieces of an op were given, or None."""
    given = op.attributes[PIECE_KEYS]
    if not isinstance(given, DictionaryAttr):
        return f"{PIECE_KEYS} must be a dictionary from role to key"
    roles = all_roles(op, table.get(op.name))[:-1]
    known = {OTHERS, *roles, *_inner_roles(op, table)}
    for role, names in given.data.items():
        if role not in known:
            return f"{PIECE_KEYS} names '{role}', but the roles are {_shown(role, roles, known)}"
        if not texts(names):
            return f"{PIECE_KEYS} holds {names} for '{role}', not a key or a list of keys"
    return None


def _result_refusal(op: Operation, types: Sequence[object]) -> str | None:
    for number, (given, result) in enumerate(zip(types, op.results, strict=False)):
        element = quant_element(result.type)
        if element is None or element.qparams.storage == Storage.of("i32"):
            continue  # a sum may hold what it is rounded to where it is rounded
        if isinstance(given, UniformType) and given != element:
            which = f"result #{number}" if number else "the result"
            return f"{QPARAMS} gives {which} as {given}, but its type says {element}"
    floats = {
        kind.qparams.expressed if isinstance(kind, UniformType) else str(kind)
        for kind in (element_type(result.type) for result in op.results)
    }
    for role, kind in component_types(op).items():
        if kind.qparams.expressed not in floats:
            return f"{QPARAMS} expresses '{role}' in {kind.qparams.expressed}"
    return None


def verify_pieces(op: Operation) -> None:
    """Hold what an `nn` op says of its pieces against its roles; VerifyException."""
    table = known_components()
    reason = qparams_refusal(op, table)
    if not reason and PIECE_KEYS in op.attributes:
        reason = piece_keys_refusal(op, table)
    if reason:
        raise VerifyException(f"'{op.name}' op {reason}")
