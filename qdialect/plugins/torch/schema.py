"""The JSON of an exported program (schema 8 of `torch.export`) as a `Program`.

Every entry of the schema is an object with one key that says its kind: `{"as_int": 3}`,
`{"as_tensor": {"name": "x"}}`.  Kinds that later minor versions add are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from qdialect.errors import InputError, Where
from qdialect.plugins.common.extents import Extent, product
from qdialect.plugins.torch.program import (
    Argument,
    ElementType,
    Graph,
    Input,
    InputKind,
    Node,
    Other,
    Output,
    OutputKind,
    Program,
    Ref,
    Subgraph,
    Tensor,
    Weight,
)
from qdialect.plugins.torch.result_names import result_names

SCHEMA = 8
"""The major version of the schema that is read."""

Json = dict[str, Any]

_VALUES = frozenset(
    {"as_int", "as_bool", "as_string", "as_ints", "as_bools"}
    | {"as_strings", "as_int_lists", "as_float_lists", "as_operator"}
)
_OTHERS = frozenset({"as_device", "as_layout", "as_memory_format", "as_custom_obj", "as_complex"})
_INPUTS: Mapping[str, tuple[InputKind, str]] = {
    "parameter": ("parameter", "parameter_name"),
    "buffer": ("buffer", "buffer_name"),
    "tensor_constant": ("constant", "tensor_constant_name"),
}
_OUTPUTS: Mapping[str, tuple[OutputKind, str]] = {
    "user_output": ("output", ""),
    "buffer_mutation": ("buffer_mutation", "buffer_name"),
    "parameter_mutation": ("buffer_mutation", "parameter_name"),
    "user_input_mutation": ("input_mutation", "user_input_name"),
}


def read_program(document: Json, weights: Mapping[str, Weight], file: str | None) -> Program:
    """The program of `model.json`; InputError (`invalid-torch`) for a document that is none, or
    of another major version of the schema."""
    try:
        version = document["schema_version"]
        if version["major"] != SCHEMA:
            raise _bad(
                file,
                f"the program has schema {version['major']}, and {SCHEMA} is read: "
                "export it again with PyTorch 2.9 or newer",
            )
        return _Reader(file).program(document, weights)
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise _bad(file, f"malformed program: {_said(error)}") from None
    except (ValueError, OverflowError) as error:
        raise _bad(file, f"malformed program: {error}") from None


def _said(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no entry {error}"
    return "nested too deep" if isinstance(error, RecursionError) else str(error)


def _bad(file: str | None, reason: str) -> InputError:
    return InputError(reason, where=Where(file), code="invalid-torch")


class _Reader:
    """Reads the parts of one document."""

    def __init__(self, file: str | None) -> None:
        self._file = file

    def program(self, document: Json, weights: Mapping[str, Weight]) -> Program:
        module = document["graph_module"]
        signature = module["signature"]
        ranges = {
            str(name): (int(r["min_val"] or 0), None if r["max_val"] is None else int(r["max_val"]))
            for name, r in document["range_constraints"].items()
        }
        return Program(
            self.graph(module["graph"]),
            [self._input(spec) for spec in signature["input_specs"]],
            self._outputs(signature["output_specs"], module),
            weights,
            self._file,
            ranges,
        )

    # -- signature ----------------------------------------------------------------------

    def _input(self, spec: Json) -> Input:
        kind, entry = _only(spec)
        if kind in _INPUTS:
            name, target = _INPUTS[kind]
            return Input(name, entry["arg"]["name"], entry[target])
        if kind == "user_input":
            argument = self.argument(entry["arg"])
            if isinstance(argument, Ref):
                return Input("input", argument.name, argument.name)
            return Input("number", "", argument)
        if kind == "constant_input":
            return Input("number", entry["name"], self.argument(entry["value"]))
        return Input("other", str(entry.get("name", kind)), kind)

    def _outputs(self, specs: list[Json], module: Json) -> list[Output]:
        outputs = [self._output(spec) for spec in specs]
        calls = cast("list[Json]", module.get("module_call_graph") or [{}])
        signature = cast("Json", calls[0].get("signature") or {})
        names = result_names(signature.get("out_spec"))
        if len(names) != sum(output.kind == "output" for output in outputs):
            return outputs
        named = iter(names)
        return [o._replace(target=next(named)) if o.kind == "output" else o for o in outputs]

    def _output(self, spec: Json) -> Output:
        kind, entry = _only(spec)
        if kind not in _OUTPUTS:
            return Output("other", None, kind)
        name, target = _OUTPUTS[kind]
        value = entry["arg"]
        value = Ref(value["name"]) if "name" in value else self.argument(value)
        return Output(name, value, entry[target] if target else "")

    # -- graph --------------------------------------------------------------------------

    def graph(self, document: Json) -> Graph:
        tensors = {name: self._tensor(meta) for name, meta in document["tensor_values"].items()}
        numbers = {name: self._size(s) for name, s in document["sym_int_values"].items()}
        return Graph(
            [self.argument(entry) for entry in document["inputs"]],
            [self.argument(entry) for entry in document["outputs"]],
            [self._node(node, index) for index, node in enumerate(document["nodes"])],
            tensors,
            numbers,
        )

    def _tensor(self, meta: Json) -> Tensor:
        shape = tuple(self._size(size) for size in meta["sizes"])
        strides = tuple(self._size(step) for step in meta.get("strides") or ())
        return Tensor(int(meta["dtype"]), shape, _is_contiguous(shape, strides))

    def _size(self, size: Json) -> Extent:
        kind, value = _only(size)
        if kind != "as_int":
            return extent(value["expr_str"])
        if not -(2**63) <= int(value) < 2**63:
            raise ValueError(f"an extent of {value} is no 64-bit integer")
        return Extent.of(int(value))

    def _node(self, node: Json, index: int) -> Node:
        arguments: dict[str, Argument] = {}
        for place, entry in enumerate(node["inputs"]):
            arguments[entry["name"] or str(place)] = self.argument(entry["arg"])
        metadata = cast("Mapping[str, str]", node.get("metadata") or {})
        target = str(node["target"]).removeprefix("torch.ops.")
        results = [_result(entry) for entry in node["outputs"]]
        name = node.get("name") or next((r for r in results if isinstance(r, str)), f"node{index}")
        return Node(
            str(name),
            target,
            arguments,
            results,
            _module(metadata.get("nn_module_stack", "")),
            _source(metadata.get("stack_trace", "")),
        )

    def argument(self, entry: Json) -> Argument:
        """One argument of a node."""
        kind, value = _only(entry)
        if kind == "as_float":
            return float(value)  # "Infinity" is a text
        if kind == "as_floats":
            return [float(number) for number in value]
        if kind in _VALUES:
            return value
        if kind == "as_none":
            return None
        if kind in ("as_tensor", "as_sym_float"):
            return Ref(value["name"]) if "name" in value else self._number(value)
        if kind in ("as_sym_int", "as_sym_bool"):
            return self._number(value)
        if kind in ("as_tensors", "as_nested_tensors"):
            return [
                [Ref(v["name"]) for v in cast("list[Json]", inner)]
                if isinstance(inner, list)
                else Ref(inner["name"])
                for inner in value
            ]
        if kind == "as_optional_tensors":
            return [self._optional(inner) for inner in value]
        if kind == "as_optional_tensor":
            return self._optional(value)
        if kind in ("as_sym_ints", "as_sym_bools", "as_sym_floats"):
            return [self._number(inner) for inner in value]
        if kind == "as_scalar_type":
            return ElementType(int(value))
        if kind == "as_graph":
            return Subgraph(str(value["name"]), self.graph(value["graph"]))
        if kind in _OTHERS:
            return Other(kind, str(value))
        raise _bad(self._file, f"the program has an argument of a kind not known: '{kind}'")

    def _optional(self, entry: Json) -> Argument:
        kind, value = _only(entry)
        return Ref(value["name"]) if kind == "as_tensor" else None

    def _number(self, entry: Json) -> Argument:
        kind, value = _only(entry)
        return Ref(value) if kind == "as_name" else value


def _is_contiguous(shape: tuple[Extent, ...], strides: tuple[Extent, ...]) -> bool:
    return len(shape) == len(strides) and all(
        size == Extent.of(1) or step == product(shape[d + 1 :])
        for d, (size, step) in enumerate(zip(shape, strides, strict=True))
    )


def _only(entry: Json) -> tuple[str, Any]:
    filled = [(key, value) for key, value in entry.items() if value is not None] or [*entry.items()]
    if len(filled) != 1:
        raise ValueError(f"an entry has {len(filled)} kinds, not one")
    return filled[0]


def _result(entry: Json) -> str | list[str | None] | None:
    kind, value = _only(entry)
    if kind in ("as_tensor", "as_sym_float"):
        return str(value["name"]) if "name" in value else str(value["as_name"])
    if kind in ("as_sym_int", "as_sym_bool"):
        return str(value["as_name"]) if "as_name" in value else None
    if kind == "as_tensors":
        return [str(inner["name"]) for inner in value]
    if kind == "as_optional_tensors":
        return [str(i["as_tensor"]["name"]) if i.get("as_tensor") else None for i in value]
    if kind == "as_optional_tensor":
        return str(value["as_tensor"]["name"]) if value.get("as_tensor") else None
    return None


# -- where a node comes from ------------------------------------------------------------------

_FRAME = re.compile(r'File "([^"]*)", line (\d+)')
_LIBRARIES = ("/site-packages/", "/dist-packages/", "torch/fx/")


def _module(stack: str) -> str:
    """The path of the innermost module: `L__self__,,Net;L__self___conv,conv,torch.nn.Conv2d`."""
    last = stack.rpartition(";")[2].split(",")
    path = last[1] if len(last) == 3 else ""
    return path if re.fullmatch(r"[\w.\[\]']*", path) else ""


def _source(trace: str) -> tuple[str, int] | None:
    """The innermost line of the trace that is not of a library."""
    frames = [(file, int(line)) for file, line in _FRAME.findall(trace)]
    own = [f for f in frames if not any(part in f[0] for part in _LIBRARIES)]
    return own[-1] if own else None


# Sizes in exported programs: sympy's text of an expression as an `Extent`.
#
#     Mul(Integer(4), Symbol('s77', positive=True, integer=True))   ->   4*@s77
#
# The text is parsed by a grammar of names, numbers and brackets; nothing of it is evaluated.

_TOKEN = re.compile(r"\s*(?:([A-Za-z_][\w.]*)|(-?\d+)|('[^']*')|([(),=]))")
_DEEPEST = 64


class Call(NamedTuple):
    """A function of the expression, and its arguments without those that have names."""

    function: str
    arguments: tuple[Term, ...]


Term = Call | int | str
"""A function applied, a number, or a text in quotes."""


def parse(text: str) -> Term:
    """The expression as a tree; ValueError for a text that is none."""
    tokens = _tokens(text)
    term, rest = _term(tokens, 0, 0)
    if rest != len(tokens):
        raise ValueError(f"'{tokens[rest]}' is left over in the size '{text}'")
    return term


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"the size '{text}' is no expression")
        found.append(match.group(match.lastindex or 0))
        position = match.end()
    return found


def _term(tokens: list[str], place: int, depth: int) -> tuple[Term, int]:
    """The term that begins at a place, and the place behind it."""
    if place >= len(tokens) or depth > _DEEPEST:
        raise ValueError("a size ends early, or is nested too deep")
    token = tokens[place]
    if token[0] == "'":
        return token[1:-1], place + 1
    if token.lstrip("-").isdigit():
        return int(token), place + 1
    if token in ("(", ")", ",", "="):
        raise ValueError(f"a size has '{token}' where a term is expected")
    if tokens[place + 1 : place + 2] != ["("]:
        return Call(token, ()), place + 1
    arguments: list[Term] = []
    place += 2
    while tokens[place : place + 1] != [")"]:
        if tokens[place + 1 : place + 2] == ["="]:
            _, place = _term(tokens, place + 2, depth + 1)
        else:
            argument, place = _term(tokens, place, depth + 1)
            arguments.append(argument)
        if tokens[place : place + 1] == [","]:
            place += 1
    return Call(token, tuple(arguments)), place + 1


def extent(text: str) -> Extent:
    """The size that a text says; ValueError where it is no expression of integers."""
    return _extent(parse(text))


def _extent(term: Term) -> Extent:
    if isinstance(term, int):
        return Extent.of(term)
    if isinstance(term, str):
        raise ValueError(f"a size has the text '{term}' in it")
    function, arguments = term
    if function == "Symbol" and arguments and isinstance(arguments[0], str):
        return Extent.named(arguments[0])
    if function in _NUMBERS:
        return Extent.of(_NUMBERS[function])
    values = [_extent(argument) for argument in arguments]
    if function == "Integer" and len(values) == 1:
        return values[0]
    if function in _FOLDED and values:
        total = values[0]
        for value in values[1:]:
            total = _FOLDED[function](total, value)
        return total
    if len(values) == 2 and function in _PAIRS:
        return _PAIRS[function](*values)
    # Equal arguments, equal results: what the function is does not matter for that.
    total = Extent.of(len(values))
    for value in values:
        total = total.made(function, value)
    return total


def _power(base: Extent, exponent: Extent) -> Extent:
    times = exponent.number
    if times is None or not 0 <= times <= 8:
        return base.made("Pow", exponent)
    total = Extent.of(1)
    for _ in range(times):
        total = total * base
    return total


def floor_quotient(a: Extent, b: Extent) -> Extent:
    """a // b: a polynomial where b divides every term, else a function of both."""
    if a.number is not None and b.number:
        return Extent.of(a.number // b.number)
    return a.over(b) or a.made("FloorDiv", b) if b.terms else a.made("FloorDiv", b)


_NUMBERS = {"One": 1, "Zero": 0, "NegativeOne": -1}
_FOLDED: dict[str, Callable[[Extent, Extent], Extent]] = {
    "Add": lambda a, b: a + b,
    "Mul": lambda a, b: a * b,
}
_PAIRS: dict[str, Callable[[Extent, Extent], Extent]] = {
    "Pow": _power,
    "FloorDiv": floor_quotient,
    "CleanDiv": floor_quotient,
}
