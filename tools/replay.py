"""What a change to the code changed in what comes out: a record of outputs, and a comparison.

Inputs are the lit tests, some random ONNX models and the public corpus (`corpus.py`, whatever
of it is in the cache). Recorded is, for each and each target, what `optimize` makes of it: the
digest of the text, the number of ops by kind, the rules that fired; and the digest of what is
exported. A later run tells what is different, and exits with 1.

    python -m tools.replay --record before.json
    python -m tools.replay --compare before.json
"""

# pyright: basic
from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import qdialect as qd
from qdialect.errors import QError
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.onnx.write import write_model
from qdialect.targets.installed import get_target
from tests.generators.networks import random_model
from tests.support.tables import step

ROOT = Path(__file__).parents[1]
TARGETS = ("generic", "onnxruntime", "integer", "tosa", "linalg", "stablehlo")
RANDOM = 20
Record = dict[str, Any]


def lit_inputs() -> Iterator[tuple[str, qd.Model]]:
    """Every module of the lit tests that is one."""
    for path in sorted((ROOT / "lit_tests").rglob("*.mlir")):
        for number, part in enumerate(path.read_text().split("// -----")):
            ctx = new_context(allow_unregistered=True)
            name = f"{path.relative_to(ROOT)}#{number}"
            try:
                module = read_module(part, ctx, name)
                verify_module(module, ctx)
            except QError:
                continue  # it shows an error
            yield name, qd.Model(module, ctx)


def random_inputs() -> Iterator[tuple[str, qd.Model]]:
    """Models out of seeds."""
    from qdialect.plugins.onnx.read import import_model

    for seed in range(RANDOM):
        ctx = new_context(allow_unregistered=True)
        yield f"random#{seed}", qd.Model(import_model(random_model(seed), ctx), ctx)


def corpus_inputs() -> Iterator[tuple[str, qd.Model]]:
    """The quantized networks of the corpus that were built before."""
    from tools.bench.corpus import models

    for path in sorted(models().glob("*.onnx")):
        yield f"corpus/{path.name}", qd.load(path)


KINDS = {"lit": lit_inputs, "random": random_inputs, "corpus": corpus_inputs}


def recorded(model: qd.Model, target: str) -> Record:
    """What `optimize` and the exports make of a model."""
    try:
        made = qd.optimize(model, get_target(target))
    except QError as error:
        return {"error": f"{error.code}: {error.message}"}
    ops = Counter(op.name for op in made.module.walk())
    return {
        "text": _digest(str(made).encode()),
        "ops": dict(sorted(ops.items())),
        "fired": dict(sorted(made.ctx.remarks.fired().items())),
        "exports": {form: _exported(made, form) for form in ("qdq", "qoperator")},
    }


def _exported(model: qd.Model, form: Any) -> str:
    try:
        return _digest(
            write_model(model.module, model.ctx, form=form)
            .whole()
            .SerializeToString(deterministic=True)
        )
    except QError as error:
        return error.code


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def record(kinds: Sequence[str], targets: Sequence[str], limit: int | None = None) -> Record:
    """By input and target."""
    found: Record = {}
    for kind in kinds:
        with step(f"{kind} inputs"):
            for number, (name, model) in enumerate(KINDS[kind]()):
                if limit is not None and number >= limit:
                    break
                found[name] = {target: recorded(model, target) for target in targets}
    return found


def differences(before: Record, after: Record) -> list[str]:
    """What is different, one line for each input and target, of those in both records."""
    lines: list[str] = []
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            lines.append(f"{name}: {'new' if name in after else 'gone'}")
            continue
        for target in sorted(before[name].keys() & after[name].keys()):
            changes = _changes(before[name][target], after[name][target])
            if changes:
                lines.append(f"{name} for {target}: {'; '.join(changes)}")
    return lines


def _changes(old: Record, new: Record) -> list[str]:
    if old == new:
        return []
    if "error" in old or "error" in new:
        return [f"{old.get('error', 'no error')} -> {new.get('error', 'no error')}"]
    changes = _counts("ops", old["ops"], new["ops"]) + _counts("fired", old["fired"], new["fired"])
    total = [sum(each["ops"].values()) for each in (old, new)]
    if total[0] != total[1]:
        changes.insert(0, f"{total[0]} -> {total[1]} ops")
    if old["text"] != new["text"] and not changes:
        changes.append("other text, of the same ops")
    exports = [f for f in new["exports"] if old["exports"].get(f) != new["exports"][f]]
    return changes + ([f"other export as {', '.join(exports)}"] if exports else [])


def _counts(what: str, old: dict[str, int], new: dict[str, int]) -> list[str]:
    names = sorted({n for n in {*old, *new} if old.get(n, 0) != new.get(n, 0)})
    return [f"{what} {name} {old.get(name, 0)} -> {new.get(name, 0)}" for name in names]


def text_of(found: Record) -> str:
    """The file: one line for each input and target."""
    lines = (
        f" {json.dumps(name)}: {json.dumps(found[name], sort_keys=True)}" for name in sorted(found)
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Record, or compare with a record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--record", type=Path, metavar="FILE.json")
    mode.add_argument("--compare", type=Path, metavar="FILE.json")
    parser.add_argument("--inputs", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--targets", nargs="+", default=list(TARGETS))
    parser.add_argument("--limit", type=int, help="so many inputs of a kind at most")
    options = parser.parse_args(arguments)
    found = record(options.inputs, options.targets, options.limit)
    if options.record is not None:
        options.record.write_text(text_of(found))
        print(f"{len(found)} inputs, {len(options.targets)} targets: {options.record}")
        return 0
    lines = differences(json.loads(options.compare.read_text()), found)
    print("".join(f"{line}\n" for line in lines) + f"{len(lines)} differences")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
