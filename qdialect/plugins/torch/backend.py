"""`torch.compile(module, backend="qdialect")`: each graph through the optimizer on ONNX Runtime.

A graph that dynamo captured is exported, read, optimized and made a session when it first runs,
once for each combination of extents.  What cannot be is run as PyTorch runs it, with the reason
in `report` and on the logger `qdialect.torch_backend`; so is a graph whose first results are not
those of PyTorch.  Inputs and results share their memory with the runtime, which is in this process
once the graph has run in another one.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from qdialect.errors import QError, UsageError, culprit, printable
from qdialect.packages import package

if TYPE_CHECKING:
    from qdialect.plugins.onnx.write import OrtEngine

_LOG = logging.getLogger("qdialect.torch_backend")
_OPTIONS = frozenset({"numerics", "threads"})
_MOST_SHAPES = 8
"""Combinations of extents that one graph is compiled for."""
_LEAST_SQNR = 30.0
"""Decibels from the results of PyTorch: less is another function."""


@dataclass
class GraphReport:
    """What became of one graph: where it runs, and why not on ONNX Runtime.

    `nodes` were captured, `ops` are executed; `quantized` of these take or give codes.
    """

    graph: int
    engine: Literal["onnxruntime", "eager"]
    reason: str
    nodes: int
    shapes: str
    ops: int = 0
    quantized: int = 0

    def __str__(self) -> str:
        if self.engine == "eager":
            return f"graph {self.graph} ({self.nodes} nodes): eager, {self.reason}"
        return (
            f"graph {self.graph} ({self.nodes} nodes, inputs {self.shapes}): onnxruntime, "
            f"{self.ops} ops, {self.quantized} of them on codes"
        )


class Report(list[GraphReport]):
    """What was done with every graph since the last `reset`; printed, a line each."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no graph was compiled"


_REPORT = Report()
_COUNT = [0]


def report() -> Report:
    """What was done so far, in order."""
    return Report(_REPORT)


def reset() -> None:
    """Forget what was done so far."""
    _REPORT.clear()
    _COUNT[0] = 0


def backend(
    graph: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The compiled graph, as dynamo asks for it.

    `options` of `torch.compile`: `numerics`, as for `qdialect.optimize`, and `threads` of the
    runtime (default: PyTorch's); UsageError for others.
    """
    from qdialect.api import check_numerics

    given = dict(options or {})
    if unknown := sorted(given.keys() - _OPTIONS):
        raise UsageError(f"backend 'qdialect' has no option '{unknown[0]}'")
    _COUNT[0] += 1
    numerics = check_numerics(given.get("numerics", "exact"))
    return _Compiled(_COUNT[0], graph, numerics, given.get("threads"))


class _Fallback(Exception):
    """Why PyTorch runs a graph."""


class _Compiled:
    """One graph, and its sessions by the extents of the inputs."""

    def __init__(self, number: int, graph: Any, numerics: str, threads: int | None) -> None:
        self.number, self.graph, self.numerics = number, graph, numerics
        self.threads = threads or package("torch").get_num_threads()
        self.nodes = sum(n.op.startswith("call") for n in graph.graph.nodes)
        self._sessions: dict[tuple[Any, ...], _Session | None] = {}

    def __call__(self, *inputs: Any) -> Any:
        torch = package("torch")
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        if torch.is_grad_enabled() and any(value.requires_grad for value in tensors):
            return self._eager(
                ("gradients",), "gradients are recorded (use torch.no_grad())", inputs
            )
        weights = [_is_weight(value) for value in inputs]
        key = tuple(_form(v, fixed) for v, fixed in zip(inputs, weights, strict=True))
        session = self._sessions.get(key)
        if session is not None and session.is_current(inputs):
            return session(inputs)
        if key in self._sessions and session is None:
            return self.graph(*inputs)
        if session is None and len(self._sessions) >= _MOST_SHAPES:
            reason = f"it is compiled for {_MOST_SHAPES} combinations of extents already"
            return self._eager(("shapes",), reason, inputs)
        try:
            session = _Session(self.graph, inputs, weights, self.numerics, self.threads)
            found = session(inputs)
        except (_Fallback, QError) as error:
            reason = error.message if isinstance(error, QError) else str(error)
            return self._eager(key, reason, inputs)
        except Exception as error:  # whatever export or the runtime does not take
            return self._eager(key, culprit(error), inputs)
        results = self.graph(*inputs)
        reason = _difference(results, found)
        if reason is not None:
            self._leave(key, reason)
            return results
        self._sessions[key] = session
        self._say(
            GraphReport(
                *(self.number, "onnxruntime", "", self.nodes, session.shapes),
                *(session.ops, session.quantized),
            )
        )
        return results

    def _eager(self, key: tuple[Any, ...], reason: str, inputs: Sequence[Any]) -> Any:
        if key not in self._sessions:
            self._leave(key, reason)
        return self.graph(*inputs)

    def _leave(self, key: tuple[Any, ...], reason: str) -> None:
        self._sessions[key] = None
        self._say(GraphReport(self.number, "eager", reason, self.nodes, ""))

    def _say(self, entry: GraphReport) -> None:
        _REPORT.append(entry)
        level = logging.WARNING if entry.engine == "eager" else logging.INFO
        _LOG.log(level, "%s", printable(str(entry)))


class _Session:
    """A graph for inputs of certain extents, with its weights, on ONNX Runtime."""

    def __init__(
        self,
        graph: Any,
        inputs: Sequence[Any],
        weights: Sequence[bool],
        numerics: str,
        threads: int,
    ) -> None:
        torch = package("torch")
        self._given = [n for n, fixed in enumerate(weights) if not fixed and _is_tensor(inputs[n])]
        self._weights = [
            (n, inputs[n], inputs[n]._version) for n, fixed in enumerate(weights) if fixed
        ]
        taken = [inputs[n] for n in self._given]
        for value in taken:
            if value.device.type != "cpu":
                raise _Fallback(f"an input is on {value.device}, and ONNX Runtime runs on the CPU")
        self.shapes = " ".join(f"[{'x'.join(map(str, value.shape))}]" for value in taken)
        with torch.no_grad():
            exported = torch.export.export(_closed(graph, inputs, self._given), tuple(taken))
        _check_outputs(exported)
        engine, self.ops, self.quantized = _engine(exported, numerics, threads)
        if len(engine.inputs) != len(taken):
            raise _Fallback("some of its inputs are read by nothing")
        engine.run(dict(zip(engine.inputs, map(_array, taken), strict=True)))
        self._model = engine.in_this_process()

    def is_current(self, inputs: Sequence[Any]) -> bool:
        """Whether weights are what they were when they became constants."""
        return all(inputs[n] is kept and kept._version == v for n, kept, v in self._weights)

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        torch = package("torch")
        found = self._model.run([_array(inputs[n]) for n in self._given])
        return tuple(map(torch.from_numpy, found))


def _difference(expected: Sequence[Any], found: Sequence[Any]) -> str | None:
    """Why results are not those of PyTorch; None if they are."""
    if len(expected) != len(found):
        return f"it has {len(expected)} results, and {len(found)} there"
    for index, (one, other) in enumerate(zip(expected, found, strict=True)):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"result {index} is {other.dtype}{list(other.shape)} there"
        if _sqnr(one.double(), other.double()) < _LEAST_SQNR:
            return f"result {index} is another there"
    return None


def _sqnr(reference: Any, found: Any) -> float:
    """Decibels; of equal values, infinities and NaN too, infinite."""
    apart = (reference != found) & ~((reference != reference) & (found != found))
    noise = ((reference - found)[apart] ** 2).sum().item()
    signal = (reference[reference.isfinite()] ** 2).sum().item()
    if not noise:
        return float("inf")
    from math import isfinite, log10

    return 10 * log10(signal / noise) if signal and isfinite(noise) else float("-inf")


def _is_tensor(value: Any) -> bool:
    return isinstance(value, package("torch").Tensor)


def _array(tensor: Any) -> Any:
    return tensor.detach().contiguous().numpy()


def _is_weight(value: Any) -> bool:
    """Whether an input of a graph is a parameter or buffer of the module: a constant."""
    torch = package("torch")
    if isinstance(value, torch.nn.Parameter):
        return True
    return hasattr(value, "_dynamo_static_input_type")


def _form(value: Any, is_weight: bool) -> Any:
    if is_weight:
        return "weight"
    return (value.dtype, tuple(value.shape)) if _is_tensor(value) else value


def _closed(graph: Any, inputs: Sequence[Any], given: Sequence[int]) -> Any:
    """The graph with the tensors `given` as its only inputs: weights are attributes, numbers
    are constants."""
    import copy

    fx = package("torch.fx")
    module = fx.GraphModule(graph, copy.deepcopy(graph.graph))
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for number, (node, value) in enumerate(zip(placeholders, inputs, strict=True)):
        if number in given:
            continue
        if _is_tensor(value):
            name = f"weight_{number}"
            module.register_buffer(name, value.detach())
            with module.graph.inserting_before(node):
                node.replace_all_uses_with(module.graph.get_attr(name))
        else:
            _replace(node, value)
        module.graph.erase_node(node)
    module.recompile()
    return module


def _replace(node: Any, value: Any) -> None:
    """Put a number in the place of a node."""

    def other(found: Any) -> Any:
        return value if found is node else found

    mapped = package("torch.fx").map_arg
    for user in list(node.users):
        user.args, user.kwargs = mapped(user.args, other), mapped(user.kwargs, other)


def _check_outputs(exported: Any) -> None:
    """`_Fallback` for what a session cannot give: mutation, inputs themselves, numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch's of itself
        # What is written into is said of programs without ops in place.
        signature = exported.run_decompositions({}).graph_signature
    taken = set(signature.user_inputs)
    for spec in signature.output_specs:
        if spec.kind.name != "USER_OUTPUT":
            raise _Fallback(f"it writes into '{spec.target}'")
        if type(spec.arg).__name__ != "TensorArgument":
            raise _Fallback("it returns something else than tensors")
        if spec.arg.name in taken:
            raise _Fallback("it returns an input")


def _engine(exported: Any, numerics: str, threads: int) -> tuple[OrtEngine, int, int]:
    """The engine, how many ops it was made of, and how many of these are on codes."""
    from qdialect.api import from_torch, optimize
    from qdialect.ir.ops import ConstantOp, NNOp
    from qdialect.ir.quant import quant_element
    from qdialect.plugins.onnx.write import OrtEngine, write_model
    from qdialect.plugins.torch.dialect import TorchNodeOp

    source = from_torch(exported)
    for op in source.function().walk():
        if isinstance(op, TorchNodeOp):
            raise _Fallback(f"'{op.target.data}' has no form in ONNX")
    model = optimize(source, "onnxruntime", numerics)
    ops = [op for op in model.function().body.block.ops if not isinstance(op, ConstantOp)]
    on_codes = [
        op
        for op in ops
        if isinstance(op, NNOp) and any(quant_element(v.type) for v in (*op.operands, *op.results))
    ]
    written = write_model(model.module, model.ctx).whole()
    # The last op returns.
    return OrtEngine(written, optimize=True, threads=threads), len(ops) - 1, len(on_codes)
