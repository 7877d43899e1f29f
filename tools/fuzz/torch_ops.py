"""Every op of PyTorch's own database of ops, called as its own tests call it.

Each call is a module, exported, imported and run in the interpreter, and compared with PyTorch.
No rule was made on these calls, and the database does not know the rules.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from qdialect.errors import QError

_LARGEST = 20_000
"""Elements of a tensor in a call that is tried."""


def main(arguments: Sequence[str]) -> int:
    """Print a line for each op that is not equal throughout, and what became of all calls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ops", nargs="*", help="names of ops (default: all)")
    parser.add_argument("--samples", type=int, default=4, help="calls of each op")
    parser.add_argument("--all", action="store_true", help="print ops that are equal, too")
    given = parser.parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)  # export says much
        try:
            total = _run(given)
        finally:
            logging.disable(logging.NOTSET)
    print(_counts(total))
    return 1 if total["wrong"] or total["crash"] else 0


def _run(given: argparse.Namespace) -> Counter[str]:
    total: Counter[str] = Counter()
    for entry in _database():
        if given.ops and entry.name not in given.ops:
            continue
        found, reasons = Counter[str](), Counter[str]()
        for function, tensors in _calls(entry, given.samples):
            outcome, reason = _tried(function, tensors)
            found[outcome] += 1
            if reason:
                reasons[reason] += 1
        total += found
        if given.all or set(found) - {"equal", "not exported"}:
            said = "; ".join(f"{n} x {reason}" for reason, n in reasons.most_common(2))
            print(f"{entry.name} {entry.variant_test_name}: {_counts(found)}  {said}", flush=True)
    return total


def _database() -> Sequence[Any]:
    """PyTorch's ops with their samples; exit code 2 without what they are made of."""
    try:
        module = import_module("torch.testing._internal.common_methods_invocations")
    except ImportError as error:
        print(f"the database of ops needs the package '{error.name}'", file=sys.stderr)
        raise SystemExit(2) from None
    return module.op_db


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{n} {name}" for name, n in counter.most_common())


def _calls(op: Any, most: int) -> Iterator[tuple[Callable[..., Any], list[Any]]]:
    """Calls as functions of their tensors."""
    import torch

    dtype = next((t for t in (torch.float32, torch.int64, torch.bool) if t in op.dtypes), None)
    if dtype is None:
        return
    try:
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    except Exception:  # what its own generator cannot make here
        return
    for sample in samples[:: max(1, len(samples) // most)][:most]:
        tensors: list[Any] = []
        positional = _taken([sample.input, *sample.args], tensors)
        named = {name: _taken(value, tensors) for name, value in sample.kwargs.items()}
        if tensors and all(t.numel() <= _LARGEST for t in tensors):
            yield _call(op.op, positional, named), tensors


class _Place(int):
    """Where a tensor of the call is among its tensors."""


def _taken(value: Any, tensors: list[Any]) -> Any:
    """The value with its tensors moved to `tensors`."""
    import torch

    if isinstance(value, torch.Tensor):
        tensors.append(value.detach())
        return _Place(len(tensors) - 1)
    if isinstance(value, list | tuple):
        return type(value)([_taken(v, tensors) for v in value])  # pyright: ignore
    return value


def _call(op: Any, positional: Any, named: dict[str, Any]) -> Callable[..., Any]:
    def put(value: Any, tensors: Sequence[Any]) -> Any:
        if isinstance(value, _Place):
            return tensors[value]
        if isinstance(value, list | tuple):
            return type(value)([put(v, tensors) for v in value])  # pyright: ignore
        return value

    return lambda *tensors: op(
        *put(positional, tensors), **{name: put(v, tensors) for name, v in named.items()}
    )


def _tried(function: Callable[..., Any], tensors: Sequence[Any]) -> tuple[str, str]:
    """What became of a call, and why."""
    import torch

    import qdialect as qd
    from qdialect.interpreter.machine import argument_names
    from qdialect.plugins.torch.dialect import TorchNodeOp

    class Module(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return function(*given)

    module = Module().eval()
    try:
        expected = _flat(module(*[t.clone() for t in tensors]))
        exported = torch.export.export(module, tuple(tensors))
    except Exception:  # PyTorch's own limits
        return "not exported", ""
    try:
        model = qd.from_torch(exported)
        names = argument_names(model.function())
        inputs = dict(zip(names, [t.numpy() for t in tensors], strict=True))
        results = list(qd.run(model, inputs, "numpy").values())
    except QError as error:
        return "refused", str(error).splitlines()[0].rpartition("error: ")[2][:160]
    except Exception as error:  # a defect of ours
        return "crash", f"{type(error).__name__}: {error}"[:160]
    if len(results) < len(expected):
        return "wrong", f"{len(results)} results instead of {len(expected)}"
    kept = [op for op in model.module.walk() if isinstance(op, TorchNodeOp)]
    if any(op.has_state for op in kept):
        return "random", ""
    # Behind the results are inputs that the op writes.
    for result, tensor in zip(results, expected, strict=False):
        if (difference := _difference(result, tensor)) is not None:
            return "wrong", difference
    return "kept" if kept else "equal", ""


def _flat(value: Any) -> list[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for inner in value for tensor in _flat(inner)]  # pyright: ignore
    return []


def _difference(result: Any, expected: Any) -> str | None:
    """What differs by more than float32 sums may."""
    import numpy as np
    import torch

    expected = expected.detach().resolve_conj().resolve_neg()
    expected = (expected.float() if expected.dtype == torch.bfloat16 else expected).numpy()
    if result.shape != expected.shape:
        return f"shape {list(result.shape)} instead of {list(expected.shape)}"
    if expected.dtype.kind not in "fc":
        return None if np.array_equal(result, expected) else "other integers"
    finite = np.abs(expected[np.isfinite(expected)])
    size = max(1.0, float(finite.max())) if finite.size else 1.0
    if np.allclose(result, expected, rtol=2e-4, atol=2e-5 * size, equal_nan=True):
        return None
    return f"off by {np.nanmax(np.abs(result - expected)):.3g} of {size:.3g}"
