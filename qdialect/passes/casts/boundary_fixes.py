"""Which passes mend the findings of `analysis.boundary`: found out by running them.

A finding has pipelines that may mend it. Each runs once, on a clone of the module, and mends the
findings that the clone has not any more. So a fix that is printed does what it says, and where
none does, the reason is that of the pass that refused.

For example, of

    %y = nn.conv2d %x, %w : (!x, !w) -> !f

`B1: ... its result stays float; fix: type-accumulators` is said if the sums fit 32 bits, else
`no pass mends it: a sum of 9 products may leave 32 bits`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from qdialect.analysis.boundary import Finding, find_boundaries
from qdialect.errors import QError
from qdialect.ir.context import QContext
from qdialect.passes import load
from qdialect.rewrite.op_numbers import number_ops, numbers_of, place_of_number

_STEP = re.compile(r"([\w-]+)(?:\{([\w-]+)=([\w-]+)\})?")
#: a finding of a module: its code, what of the op it is about, and the op by number
_Place = tuple[str, str, int]


def mended_boundaries(module: ModuleOp, session: QContext) -> list[Finding]:
    """The findings of a module, each with the pipeline that mends it or why none does.

    Runs each pipeline that is named, once; else linear in ops.
    """
    findings = find_boundaries(module, session)
    numbers = {op: number for number, op in enumerate(module.walk())}
    trials: dict[str, _Trial] = {}
    return [_mended(finding, module, session, numbers, trials) for finding in findings]


def _mended(
    finding: Finding,
    module: ModuleOp,
    session: QContext,
    numbers: dict[Operation, int],
    trials: dict[str, _Trial],
) -> Finding:
    ops = [numbers[op] for op in dict.fromkeys((finding.op, *finding.region))]
    why = finding.why if finding.blocked_by else ""
    for text in finding.tries:
        if text not in trials:
            trials[text] = _Trial(text, module, session)
        trial = trials[text]
        if trial.left.isdisjoint((finding.code, _subject(finding), number) for number in ops):
            return replace(finding, fix=text, why="", tries=())
        why = why or trial.reason(ops) or trial.reason(_beside(finding, numbers))
    return replace(finding, why=why or finding.why or f"{finding.tries[-1]} leaves it", tries=())


def _beside(finding: Finding, numbers: dict[Operation, int]) -> list[int]:
    """The ops that read what the ops of a finding compute, where a rule may have said why not."""
    ops = (finding.op, *finding.region)
    users = [use.operation for op in ops for result in op.results for use in result.uses]
    return [numbers[user] for user in users]


def _subject(finding: Finding) -> str:
    """What of an op a finding is about: of a function, an argument or a result."""
    return " ".join(finding.message.split()[:2]) if finding.code == "B7" else ""


class _Trial:
    """What a pipeline leaves of the findings of a module."""

    def __init__(self, text: str, module: ModuleOp, session: QContext) -> None:
        clone, ctx = module.clone(), session.clone()
        number_ops(clone)
        try:
            for instance in _passes(text):
                instance.apply(ctx, clone)
                ctx.analyses.clear()
        except QError as error:
            self.reasons = {}
            self.failed = error.message
        else:
            self.failed = ""
            self.reasons = {
                remark.location: f"{remark.reason} [{remark.code}]"
                for remark in ctx.remarks.remarks
                if remark.kind == "refused"
            }
        self.left = set(_places(find_boundaries(clone, ctx)))

    def reason(self, ops: Sequence[int]) -> str:
        """Why one of `ops` was left, if a rule said so."""
        found = (self.reasons.get(place_of_number(number), "") for number in ops)
        return self.failed or next(filter(None, found), "")


def _places(findings: Iterable[Finding]) -> Iterable[_Place]:
    for finding in findings:
        for op in (finding.op, *finding.region):
            for number in numbers_of(op.location):
                yield finding.code, _subject(finding), number


def _passes(text: str) -> Iterable[ModulePass]:
    """The passes of a pipeline as findings name them: at most one option each."""
    for name, option, value in _STEP.findall(text):
        yield load(name)()(**({option.replace("-", "_"): value} if option else {}))
