"""The pass manager: order, verification, failures and what watchers see."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from qdialect.errors import InputError, PassFailure, QError
from qdialect.ir.context import new_context, session
from qdialect.pipeline.manager import Instrumentation, PassManager
from qdialect.pipeline.text import PassSpec
from qdialect.plugins.mlir.read import read_module


@dataclass(frozen=True)
class Mark(ModulePass):
    name = "mark"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes["marked"] = UnitAttr()


@dataclass(frozen=True)
class Crash(ModulePass):
    name = "crash"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyError("oops")


@dataclass(frozen=True)
class Refuse(ModulePass):
    name = "refuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise PassFailedException("cannot do this")


@dataclass(frozen=True)
class Break(ModulePass):
    name = "break"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        first = next(iter(op.ops))
        block = first.regions[0].block
        inner = next(iter(block.ops))
        inner.detach()
        block.insert_op_before(inner, block.last_op)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Twice(ModulePass):
    """Does something the first two times."""

    name = "twice"
    counts_changes = True
    runs: list[int] = field(default_factory=list[int])

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.runs.append(session(ctx).changes)
        session(ctx).changes += len(self.runs) < 3


@dataclass(frozen=True)
class Once(Twice):
    name = "once"
    idempotent = True


class Log(Instrumentation):
    def __init__(self) -> None:
        self.events: list[str] = []

    def before_pipeline(self, ctx, passes, module) -> None:
        self.events.append(f"start {len(passes)}")

    def before_pass(self, name, module) -> None:
        self.events.append(f"before {name}")

    def before_verify(self, name, module) -> None:
        self.events.append(f"verify {name}")

    def after_pass(self, name, module) -> None:
        self.events.append(f"after {name}")

    def after_failure(self, name, module, error) -> None:
        self.events.append(f"failed {name}")

    def after_pipeline(self) -> None:
        self.events.append("end")


TEXT = """\
func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = nn.relu %x : (tensor<3xf32>) -> tensor<3xf32>
  %1 = nn.relu %0 : (tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
"""


def run(*passes: ModulePass, verify_each: bool = True) -> list[str]:
    ctx, log = new_context(), Log()
    module = read_module(TEXT, ctx)
    listed = [(PassSpec(instance.name), instance) for instance in passes]
    try:
        PassManager(ctx, listed, verify_each=verify_each, instrumentation=[log]).run(module)
    except QError as error:
        log.events.append(f"{type(error).__name__}: {error.message}")
    return log.events


def test_order_of_events() -> None:
    one = ["before mark", "verify mark", "after mark"]
    assert run(Mark(), Mark()) == ["start 2", *one, *one, "end"]


def test_without_verify_each_the_end_is_verified() -> None:
    events = run(Mark(), Mark(), verify_each=False)
    assert events.count("verify mark") == 1


@pytest.mark.parametrize("verify_each", [True, False])
def test_invalid_ir_is_a_failure_of_the_pass(verify_each: bool) -> None:
    events = run(Break(), verify_each=verify_each)
    assert events[-3:-1] == ["failed break", "end"]
    assert "left invalid IR: 'nn.relu' op operand #0 does not dominate this use" in events[-1]
    assert events[-1].startswith("QError: pass 'break' (plug-in test_manager) left")


def test_invalid_ir_from_our_pass_is_our_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Break, "__module__", "qdialect.passes.broken")
    assert run(Break())[-1].startswith(f"{PassFailure.__name__}: pass 'break' left invalid IR")


def test_a_crash_of_a_plug_in_names_it() -> None:
    events = run(Mark(), Crash(), Mark())
    assert events[-3:-1] == ["failed crash", "end"]
    assert re.fullmatch(
        r"QError: pass 'crash': plug-in code failed in test_manager.apply, line \d+: "
        r"KeyError: 'oops'",
        events[-1],
    )


def test_a_crash_is_our_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Crash.apply.__globals__, "__name__", "qdialect.passes.broken")
    events = run(Mark(), Crash(), Mark())
    assert events[-3:] == [
        "failed crash",
        "end",
        "PassFailure: pass 'crash' crashed: KeyError: 'oops'",
    ]


def test_a_refusal_is_an_error_of_the_input() -> None:
    events = run(Refuse())
    assert events[-1] == f"{InputError.__name__}: pass 'refuse' failed: cannot do this"


@pytest.mark.parametrize(
    ("kind", "others", "runs"),
    [
        # Until it has done nothing.
        (Twice, [], [0, 1, 2]),
        # Unless it is a fixed point after one run.
        (Once, [], [0]),
        # A pass that does not count may have changed anything.
        (Once, [Mark()], [0, 2, 4, 5, 6]),
    ],
)
def test_a_pass_does_not_run_on_what_it_left(
    kind: type[Twice], others: list[ModulePass], runs: list[int]
) -> None:
    ctx = new_context()
    counting = kind()
    passes = [counting, *others] * 5
    module = read_module("func.func @f() {\n  return\n}\n", ctx)
    PassManager(ctx, [(PassSpec(each.name), each) for each in passes]).run(module)
    assert counting.runs == runs
