"""The process in which `run_litert` runs models: LiteRT may abort it. Reads and writes pickles."""

# pyright: basic, reportMissingTypeStubs=false
from __future__ import annotations

import os
import pickle
import sys
from typing import Any

KEPT = 8
"""So many interpreters are kept for calls with the same model."""


def main() -> None:
    """Answer requests from standard input until it ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kinds = {
        "xnn": OpResolverType.AUTO,
        "opt": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        "ref": OpResolverType.BUILTIN_REF,
    }
    kept: dict[tuple[bytes, str, bool], Any] = {}
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        model, inputs, resolver, every, what = request
        try:
            key = (model, resolver, every)
            if (found := kept.pop(key, None)) is None:
                found = Interpreter(
                    model_content=model,
                    num_threads=1,
                    experimental_op_resolver_type=kinds[resolver],
                    experimental_preserve_all_tensors=every,
                )
                found.allocate_tensors()
            kept[key] = found
            if len(kept) > KEPT:
                kept.pop(next(iter(kept)))
            answer = ("ok", ops(found) if what == "ops" else run(found, inputs, every))
        except Exception as error:
            answer = ("error", f"{type(error).__name__}: {error}")
        pickle.dump(answer, answers)
        answers.flush()


def ops(found: Any) -> list[str]:
    """The names of the ops that run, with `DELEGATE`."""
    return [row["op_name"] for row in found._get_ops_details()]


def run(found: Any, inputs: Any, every: bool) -> Any:
    """The outputs in their order, or all tensors by name."""
    details = found.get_input_details()
    if isinstance(inputs, dict):
        inputs = [inputs[row["name"]] for row in details]
    if len(inputs) != len(details):
        raise ValueError(f"{len(inputs)} inputs for a model with {len(details)}")
    other = [n for n, row in enumerate(details) if tuple(row["shape"]) != inputs[n].shape]
    for number in other:
        found.resize_tensor_input(details[number]["index"], inputs[number].shape)
    if other:
        found.allocate_tensors()
    found.reset_all_variables()
    for row, value in zip(details, inputs, strict=True):
        found.set_tensor(row["index"], value)
    found.invoke()
    if not every:
        return [found.get_tensor(row["index"]) for row in found.get_output_details()]
    values: dict[str, Any] = {}
    for row in found.get_tensor_details():
        try:
            values[row["name"]] = found.get_tensor(row["index"])
        except ValueError:
            continue
    return values


if __name__ == "__main__":
    main()
