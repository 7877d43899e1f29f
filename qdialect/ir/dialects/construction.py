"""An op that is built from wrong operands or properties is an error where it is built.

    >>> ReluOp(a, b)
    TypeError: nn.relu takes 1 operand (input), but got (%a : tensor<4xf32>,
    %b : tensor<4xf32>): the number of operands is wrong

The verifier says the same of text, later and with a location; who builds IR in Python wants the
line of the call.  Shapes and element types that do not fit stay `VerifyException`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, wraps
from math import inf
from typing import Any, NamedTuple, TypeVar, cast

from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation, OptionalDef, PropertyDef, VariadicDef, VerificationContext
from xdsl.utils.exceptions import VerifyException

from qdialect.errors import QError

_Op = TypeVar("_Op", bound=type[IRDLOperation])


def checked_construction(kind: _Op) -> _Op:
    """An op definition whose constructor raises TypeError, with what the op takes and what it
    got, where `check_arguments` or Python itself finds the arguments wrong."""
    definition: Any = kind
    construct = definition.__init__

    @wraps(construct)
    def checked(self: IRDLOperation, *args: Any, **named: Any) -> None:
        try:
            construct(self, *args, **named)
        except (VerifyException, QError):
            raise
        except Exception as error:
            raise TypeError(_message(kind, args, named, str(error))) from error

    definition.__init__ = checked
    return kind


def check_arguments(
    kind: type[IRDLOperation],
    operands: Sequence[object],
    properties: Mapping[str, Attribute],
    types: Sequence[object] = (),
) -> None:
    """TypeError for operands that are too many, too few or no values, for properties that are
    missing, unknown or of a wrong type, and for types of results that are none."""
    expected = _expected(kind)
    if not expected.least <= len(operands) <= expected.most:
        raise TypeError("the number of operands is wrong")
    for index, operand in enumerate(operands):
        if not isinstance(operand, SSAValue):
            raise TypeError(f"operand #{index} is not one value")
    for name, attribute in properties.items():
        definition = expected.properties.get(name)
        if definition is None:
            raise TypeError(f"it has no property '{name}'")
        if attribute is not definition.default_value:
            expected.check(name, definition, attribute)
    for name in expected.needed:
        if name not in properties:
            raise TypeError(f"it needs the property '{name}'")
    for kind_of_result in types:
        if not isinstance(kind_of_result, Attribute):
            raise TypeError(f"{_shown(kind_of_result)} is not a type")


class _Expected(NamedTuple):
    """What an op takes: the number of operands, and properties."""

    least: int
    most: float
    properties: Mapping[str, PropertyDef]
    needed: tuple[str, ...]
    #: kinds of attributes that were found right, and the type inside that the key names by its
    #: id; a constraint of our properties reads no more of an attribute, and takes 3 us
    right: dict[tuple[str, type, int], object]

    def check(self, name: str, definition: PropertyDef, attribute: Attribute) -> None:
        """TypeError for a property of a wrong type."""
        inner = getattr(attribute, "elt_type", None) or getattr(attribute, "type", None)
        key = (name, attribute.__class__, id(inner))
        if key in self.right:
            return
        if not isinstance(cast("object", attribute), Attribute):
            raise TypeError(f"'{name}' is no attribute")
        try:
            definition.constr.verify(attribute, VerificationContext())
        except VerifyException as error:
            raise TypeError(f"'{name}': {error}") from error
        if len(self.right) < 64:
            self.right[key] = inner


@cache
def _expected(kind: type[IRDLOperation]) -> _Expected:
    definition = kind.get_irdl_definition()
    operands = [operand for _, operand in definition.operands]
    least = sum(not isinstance(operand, VariadicDef) for operand in operands)
    is_open = any(
        isinstance(operand, VariadicDef) and not isinstance(operand, OptionalDef)
        for operand in operands
    )
    needed = tuple(
        name
        for name, prop in definition.properties.items()
        if prop.default_value is None and not isinstance(prop, OptionalDef)
    )
    return _Expected(least, inf if is_open else len(operands), definition.properties, needed, {})


def _message(
    kind: type[IRDLOperation], args: Sequence[Any], named: Mapping[str, Any], reason: str
) -> str:
    """What the op takes, what it got, and what is wrong with that."""
    least, most, properties, *_ = _expected(kind)
    count = f"{least}" + ("" if least == most else f" to {most}" if most < inf else " or more")
    names = ", ".join(name for name, _ in kind.get_irdl_definition().operands)
    takes = f"{count} operand{'s' * (count != '1')}{f' ({names})' * bool(names)}"
    if properties:
        takes += f" and properties ({', '.join(properties)})"
    shown = ", ".join([*map(_shown, args), *(f"{name}={_shown(v)}" for name, v in named.items())])
    return f"{kind.name} takes {takes}, but got ({shown}): {reason}"


def _shown(argument: object) -> str:
    if isinstance(argument, SSAValue):
        return f"%{argument.name_hint or '_'} : {argument.type}"  # pyright: ignore[reportUnknownMemberType]
    if isinstance(argument, Attribute):
        # The text of a constant may be that of all weights.
        return str(argument) if isinstance(argument, TypeAttribute) else f"#{argument.name}"
    if isinstance(argument, Operation):
        return f"'{argument.name}' with {len(argument.results)} results"
    if isinstance(argument, list | tuple):
        return f"[{', '.join(map(_shown, cast('Sequence[object]', argument)))}]"
    return repr(argument)
