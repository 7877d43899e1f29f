"""Keys of the pieces of a composite op: `nn.piece_keys = {role = "name", ...}`.

The key of a piece is the key of the op, a slash and the role, unless the op was raised from
ops of a file: those have names of their own, under which a profile of that file knows them.
The attribute keeps these names, so that a lowering gives them back. Names of values that are
no piece of the op stand under `*`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, Operation

from qdialect.ir.ops.keys import KEY, PIECE_KEYS, JoinedKeys, keys_of, texts

if TYPE_CHECKING:
    from qdialect.ir.ops.components import Components

Keys = tuple[str, ...]

#: keys of what was computed on the way and is no piece
OTHERS = "*"


def key_attribute(keys: Keys) -> Attribute:
    """Keys as an attribute: one as a text, several as a list."""
    names = [StringAttr(key) for key in keys]
    return names[0] if len(names) == 1 else ArrayAttr(names)


def given_keys(op: Operation) -> dict[str, Keys]:
    """The keys of pieces that are not those of their roles, by role."""
    keys = op.attributes.get(PIECE_KEYS)
    if not isinstance(keys, DictionaryAttr):
        return {}
    return {role: texts(names) for role, names in keys.data.items()}


def hold_keys(op: Operation, keys: Mapping[str, Keys]) -> None:
    """Let `op` have these keys of pieces, those left out that it has by its roles."""
    op.attributes.pop(PIECE_KEYS, None)
    own: dict[str, Keys] = {}
    for role, names in sorted(keys.items()):
        # An outer role comes before those in it.
        if names and names != _role_keys(op, role, own):
            own[role] = names
    if own:
        entries = {role: key_attribute(names) for role, names in own.items()}
        op.attributes[PIECE_KEYS] = DictionaryAttr(entries)


def role_keys(op: Operation, role: str) -> Keys:
    """The keys of a piece of `op` that is not its result; `role/inner` for one of a piece."""
    return _role_keys(op, role, given_keys(op))


def _role_keys(op: Operation, role: str, given: Mapping[str, Keys]) -> Keys:
    outer, inner = role, ""
    while outer:
        if outer in given:
            return tuple(f"{key}{inner}" for key in given[outer])
        outer, _, last = outer.rpartition("/")
        inner = f"/{last}{inner}"
    return () if role == OTHERS else tuple(f"{key}/{role}" for key in keys_of(op))


def inner_keys(op: Operation, role: str) -> dict[str, Keys]:
    """The keys that pieces of the piece `role` were given."""
    prefix = f"{role}/"
    return {
        name.removeprefix(prefix): keys
        for name, keys in given_keys(op).items()
        if name.startswith(prefix)
    }


def all_keys(op: Operation, table: Mapping[str, Components]) -> dict[str, Keys]:
    """The keys of an op's pieces, of theirs, and of what was computed on the way."""
    found = {OTHERS: given_keys(op).get(OTHERS, ())}
    if (components := table.get(op.name)) is not None:
        for role in (*components.roles_of(op)[:-1], *components.inner_roles(op, table)):
            found[role] = role_keys(op, role)
    return {role: keys for role, keys in found.items() if keys}


def numbered(keys: Keys, count: int) -> Keys:
    """The keys of the values of one role: those after the first have a number."""
    return tuple(f"{key}@{count}" if count else key for key in keys)


def shared_key(key: str, table: Mapping[str, Components]) -> str:
    """The key under which all values of a role are one entry (see `numbered`)."""
    name, _, number = key.rpartition("@")
    role = name.rpartition("/")[2]
    if not number.isdecimal() or not any(role in entry.roles for entry in table.values()):
        return key
    return name


def join_keys(op: Operation, other: Operation) -> bool:
    """Let `op` go under the keys of `other` too; whether it must be settled for that.

    An op may take the place of thousands, one after the other: until `settle_keys` its
    keys are joined two by two, and `keys_of` lists them.
    """
    own, more = op.attributes.get(KEY), other.attributes.get(KEY)
    if more is None or more is own:
        return False
    op.attributes[KEY] = more if own is None else JoinedKeys((own, more))
    return own is not None


def settle_keys(module: Operation) -> None:
    """List the keys that `join_keys` has joined, in every op of `module`."""
    for op in module.walk():
        if isinstance(op.attributes.get(KEY), JoinedKeys):
            op.attributes[KEY] = key_attribute(keys_of(op))


def merge_keys(
    into: Operation, merged: Sequence[Operation], table: Mapping[str, Components]
) -> None:
    """Let an op go under the keys of equal ones too, and its pieces under those of theirs."""
    ops = (into, *merged)
    pieces: dict[str, Keys] = {}
    if any(map(given_keys, ops)):
        found = [all_keys(op, table) for op in ops]
        for role in dict.fromkeys(role for keys in found for role in keys):
            pieces[role] = _union(*(keys.get(role, ()) for keys in found))
    if keys := _union(*map(keys_of, ops)):
        into.attributes[KEY] = key_attribute(keys)
    hold_keys(into, pieces)


def _union(*several: Keys) -> Keys:
    return tuple(dict.fromkeys(chain.from_iterable(several)))
