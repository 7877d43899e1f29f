"""What goes along when pieces become a composite op: their keys and component qparams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.ir import Operation, SSAValue

from qdialect.context import QContext
from qdialect.ops import keys_of
from qdialect.ops.component_keys import OTHERS, Keys, all_keys, given_keys, hold_keys
from qdialect.ops.component_qparams import component_types, hold_types, result_role
from qdialect.quant import UniformType
from qdialect.rewrite import Refusal


def held(op: Operation, session: QContext) -> UniformType | None:
    """The component qparams that an op has of its own result."""
    role = result_role(op, session.components.get(op.name))
    return component_types(op).get(role)


def hold(
    op: Operation, session: QContext, pieces: Mapping[str, Operation | None], result: Operation
) -> None:
    """The qparams of all pieces, if all are known, and of theirs."""
    types = _types(pieces, session)
    found = {role: kind for role, kind in types.items() if kind is not None}
    if 0 < len(found) < len(types):
        return
    if found:
        for role in session.components[op.name].inner.keys() & pieces.keys():
            found |= _inner_types(role, pieces[role], session)
    if (own := held(result, session)) is not None:
        found[result_role(op, session.components.get(op.name))] = own
    hold_types(op, found)


def _inner_types(role: str, piece: Operation | None, session: QContext) -> dict[str, UniformType]:
    """What a piece says of its own pieces, as its op does."""
    if piece is None:
        return {}
    own = result_role(piece, session.components.get(piece.name))
    inner = component_types(piece).items()
    return {f"{role}/{name}": kind for name, kind in inner if name != own}


def owner_of(value: SSAValue | None) -> Operation | None:
    """The op that computes a value, if it has one."""
    return value.owner if value is not None and isinstance(value.owner, Operation) else None


def name_pieces(
    op: Operation,
    session: QContext,
    root: Operation,
    pieces: Mapping[str, Operation | None],
    others: Iterable[Operation] = (),
) -> None:
    """Let the pieces of `op`, which takes the place of `root`, keep the keys of the ops that
    they were."""
    inner = session.components[op.name].inner
    keys = {role: keys_of(piece) for role, piece in pieces.items() if piece is not None}

    def also(role: str, names: Keys) -> None:
        keys[role] = (*keys.get(role, ()), *names)

    for role, piece in pieces.items():
        for part, names in () if piece is None else all_keys(piece, session.components).items():
            if role in inner and part != OTHERS:
                also(f"{role}/{part}", names)
            else:
                # A piece that is a composite may have pieces of this op: hard-swish's
                # `scaled` is that of the hard-sigmoid in it.
                also(part if part in pieces and pieces[part] is None else OTHERS, names)
    also(OTHERS, given_keys(root).get(OTHERS, ()))
    for other in others:
        also(OTHERS, keys_of(other))
        for names in all_keys(other, session.components).values():
            also(OTHERS, names)
    hold_keys(op, keys)


def unwanted(op: Operation, session: QContext) -> Refusal | None:
    """The refusal of a composite that the target would only lower again."""
    if session.target.should_raise(op):
        return None
    return Refusal("whole", f"{session.target.name} does not run '{op.name}' whole")


def _types(
    pieces: Mapping[str, Operation | None], session: QContext
) -> dict[str, UniformType | None]:
    """The qparams that pieces have of their results, by role; of a role that is a piece of a
    piece, as hard-swish's `scaled` is of the hard-sigmoid in it, what that one holds."""
    types = {role: op and held(op, session) for role, op in pieces.items()}
    for piece in pieces.values():
        for role, kind in ({} if piece is None else component_types(piece)).items():
            if role in pieces and pieces[role] is None:
                types[role] = kind
    return types
