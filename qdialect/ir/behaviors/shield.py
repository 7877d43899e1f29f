"""Calling what a vendor wrote: whatever goes wrong there is reported as theirs.

A hook is a function that a plug-in or a target brings: a field of a declaration, a
method of a target.  One that raises, or returns something of the wrong kind, becomes
one error that names the owner, the hook and what happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from functools import wraps
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from qdialect.errors import QError, culprit
from qdialect.ir.behaviors.declaration import Accumulator, AffineFunction, Behavior, Port
from qdialect.ir.behaviors.flow import tied_operands
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of

if TYPE_CHECKING:
    from xdsl.ir import Operation


def of_type(*types: type) -> Callable[[Any], bool]:
    """Accepts instances of `types`."""

    def accepts(result: Any) -> bool:
        return isinstance(result, types)

    return accepts


class Hook(NamedTuple):
    """Name of a hook, what it returns in words, and whether a result is that."""

    name: str
    returns: str
    accepts: Callable[[Any], bool]


def shielded(
    function: Callable[..., Any],
    owner: str | Callable[[Any], str],
    hook: Hook,
    allowed: tuple[type[Exception], ...] = (),
) -> Callable[..., Any]:
    """`function`, with its failures as QErrors (`bad-hook`); those in `allowed` mean
    something to the caller and pass. Its owner, or what tells it from the first argument."""
    passing = (QError, *allowed)

    def failed(what: str, args: tuple[Any, ...]) -> QError:
        return _failed(owner if isinstance(owner, str) else owner(args[0]), hook, what)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except passing:
            raise
        except (Exception, SystemExit) as error:
            raise failed(f"raised {culprit(error)}", args) from error
        if not hook.accepts(result):
            text = f"returned {type(result).__name__} {result!r:.60}, not {hook.returns}"
            raise failed(text, args)
        return result

    return call


def shielded_method(cls: type, hook: Hook) -> Callable[..., Any]:
    """The method `hook` that `cls` defines, shielded; its owner is the `name` of self."""
    method = cls.__dict__[hook.name]
    where = f"{cls.__module__}.{cls.__qualname__}"

    return shielded(method, lambda target: f"target '{target.name}' ({where})", hook)


def _failed(owner: str, hook: Hook, what: str) -> QError:
    return QError(f"{owner}: {hook.name} {what}", code="bad-hook")


def with_shields(behavior: Behavior) -> Behavior:
    """`behavior`, with each of its functions shielded."""
    owner = f"behavior of '{behavior.op}'"
    changed = _shielded_fields(behavior, owner, lambda name: _ANSWERS.get(name, _ANYTHING))
    if behavior.movement is not None:
        changed["movement"] = _fitting(changed["movement"], behavior, owner)
    if behavior.accumulator is not None:
        fields = _shielded_fields(behavior.accumulator, owner, lambda name: _SUMS.get(name, _INT))
        changed["accumulator"] = replace(behavior.accumulator, **fields)
    for side in ("operands", "results"):
        changed[side] = tuple(_shielded_port(port, owner) for port in getattr(behavior, side))
    return replace(behavior, **changed)


def _shielded_fields(
    declared: Behavior | Accumulator, owner: str, answer: Callable[[str], Answer]
) -> dict[str, Any]:
    functions = {f.name: getattr(declared, f.name) for f in dataclass_fields(declared)}
    return {
        name: shielded(function, owner, Hook(name, *answer(name)), _ALLOWED.get(name, ()))
        for name, function in functions.items()
        if callable(function)
    }


def _shielded_port(port: Port, owner: str) -> Port:
    if port.axes is None:
        return port
    hook = Hook(f"axes of '{port.role}'", "a set of dimensions", of_type(AbstractSet))
    return replace(port, axes=shielded(port.axes, owner, hook))


def _fitting(movement: Callable[..., Any], behavior: Behavior, owner: str) -> Callable[..., Any]:
    """`movement`, also checked against the shapes of the op it is asked about."""
    hook = Hook("movement", "", _is_map)

    def call(op: Operation) -> Any:
        maps = movement(op)
        several = _parts(maps)
        if len(several) != len(op.results):
            text = f"returned {len(several)} maps for {len(op.results)} results"
            raise _failed(owner, hook, text)
        taken = [shape_of(op.operands[i]) for i in tied_operands(op, behavior)]
        for one, result in zip(several, op.results, strict=True):
            try:
                given = one.output_shape(taken)
            except Exception as error:
                text = f"returned {type(one).__name__}, which does not fit: {culprit(error)}"
                raise _failed(owner, hook, text) from error
            if not _agree(given, shape_of(result)):
                text = f"returned a map to {list(given)}, but the result is {result.type}"
                raise _failed(owner, hook, text)
        return maps

    return call


def _agree(given: Sequence[int], declared: Sequence[int]) -> bool:
    if len(given) != len(declared):
        return False
    return all(DYNAMIC in (a, b) or a == b for a, b in zip(given, declared, strict=True))


def _parts(result: Any) -> list[Any]:
    return list(cast("Sequence[Any]", result)) if isinstance(result, Sequence) else [result]


def _is_map(result: Any) -> bool:
    from qdialect.algebra.qparams.maps import IndexMap

    return all(isinstance(part, IndexMap) for part in _parts(result))


def _are_numbers(result: Any) -> bool:
    return isinstance(result, Sequence) and all(isinstance(x, Real) for x in _parts(result))


def _are_bounds(result: Any) -> bool:
    return _are_numbers(result) and len(result) == 2


def _is_number(result: Any) -> bool:
    return result is None or (isinstance(result, Real) and result == result)


def _is_array(result: Any) -> bool:
    return hasattr(result, "shape") and hasattr(result, "dtype")


def _is_anything(result: Any) -> bool:
    return True


Answer = tuple[str, Callable[[Any], bool]]
"""What a function returns, in words, and whether a result is that."""

_SUMS: dict[str, Answer] = {"channels": ("two arrays of indices", of_type(tuple))}
_ANYTHING: Answer = ("a value", _is_anything)
_INT: Answer = ("an int", of_type(int))

#: what functions of a declaration return, where that can be checked
_ANSWERS: dict[str, Answer] = {
    "movement": ("an index map, or one per result", _is_map),
    "movement_of_values": ("an index map", _is_map),
    "inverse_map": ("an index map", _is_map),
    "operand_maps": ("index maps", _is_map),
    "compared_constants": ("a sequence of numbers", _are_numbers),
    "clamp": ("two numbers", _are_bounds),
    "activation": ("two numbers", _are_bounds),
    "is_identity": ("a bool", of_type(bool)),
    "work": _INT,
    "shares": _INT,
    "transcendental": ("an array", _is_array),
    "select": ("an array", _is_array),
    "choose": ("an array", _is_array),
    "as_clamp": ("bounds or None", of_type(tuple, type(None))),
    "pointwise": ("an array", _is_array),
    "affine": ("an AffineFunction or None", of_type(AffineFunction, type(None))),
    "gain": ("a number or None", _is_number),
}

#: what a hook may raise to say something
_ALLOWED: dict[str, tuple[type[Exception], ...]] = {
    "arithmetic": (ValueError,),
    "analytic": (ValueError,),
}
