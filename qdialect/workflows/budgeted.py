"""Candidates for who asks for more than speed: a metric, budgets, the front between time and loss.

Between the fastest plan and the float model the solver is asked for plans at weights that follow
from those it gave (`front`). Each that may be what is looked for is built, run and judged, and what
it lost corrects the losses that the next plans are made with: they add up only roughly.  The search
ends where the solver has no plan between the last that meets the budgets and the last that does
not.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation, SSAValue

from qdialect.errors import InputError, Where
from qdialect.ir.ops import keys_of
from qdialect.ir.weights import save_text
from qdialect.quantizer.noise import scaled
from qdialect.quantizer.precision import Losses, Plan
from qdialect.quantizer.quality import db_text
from qdialect.quantizer.recipe import Precision
from qdialect.quantizer.sensitivity import kernel_name, value_name
from qdialect.report.tables import FrontPoint
from qdialect.workflows.budget import Budget, Outcome
from qdialect.workflows.candidates import (
    FLOAT,
    Builder,
    Candidate,
    Loop,
    Raced,
    nearly_best,
)
from qdialect.workflows.front import Point, corners, nearest_that_meets, non_dominated
from qdialect.workflows.loadable import loader
from qdialect.workflows.metric import Metric, metric_on
from qdialect.workflows.model import save_or_copy
from qdialect.workflows.race import Race

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.workflows.model import Form, Model

    Arrays = Mapping[str, NDArray[Any]]

_Rounding = tuple[int, Precision] | SSAValue
"""An op in a state, by its number, or a value that is converted to codes."""
Choice = frozenset[tuple[int, Precision]]
"""The ops of a plan that are not on floats, by number, and their states."""

MOST_TRIALS = 8
"""So many plans are built at most on the way to a budget, and for a front."""
MOST_BALANCED = 4
"""So many plans are built at most to weigh time and noise against each other."""
_WORST = 1e4
"""Losses above this one (-40 dB) are all the same: nothing is left of the outputs."""
_ALL_FLOAT: Choice = frozenset()


@dataclass(frozen=True)
class Request:
    """What is asked: budgets that the result meets, the metric that judges, and whether there is to
    be a front. With `best_effort` what comes nearest is taken where nothing meets the budgets.  Of
    those that meet them the one of least time * (1 + `noise_price` * noise) is written
    (`candidates.nearly_best`)."""

    budgets: Sequence[Budget] = ()
    metric: str | None = None
    front: bool = False
    best_effort: bool = False
    noise_price: float = 0.0


@dataclass(frozen=True)
class Answer:
    """What was found: what the metric takes (None: there is none), what each candidate has, the
    names of those on the front, the fastest first, and which budgets the chosen does not meet."""

    takes: str | None
    outcomes: Mapping[str, Outcome]
    front: Sequence[str]
    candidates: Mapping[str, Candidate]
    unmet: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """As plain data; `sqnr_db` is None where there is no noise."""
        return {
            "metric_takes": self.takes,
            "unmet": list(self.unmet),
            "front": list(self.front),
            "candidates": {
                name: {
                    "ms": outcome.milliseconds,
                    "ratio": outcome.ratio,
                    "sqnr_db": outcome.sqnr if math.isfinite(outcome.sqnr) else None,
                    "metric": outcome.metric,
                }
                for name, outcome in self.outcomes.items()
            },
        }


def front_points(answer: Answer, chosen: str) -> list[FrontPoint]:
    """The candidates as the page draws them, the fastest first."""
    points = [
        FrontPoint(
            name,
            outcome.milliseconds,
            outcome.ratio,
            outcome.sqnr,
            outcome.metric,
            name in answer.front,
            name == chosen,
        )
        for name, outcome in answer.outcomes.items()
    ]
    return sorted(points, key=lambda point: point.ratio)


def write_front(
    folder: Path, answer: Answer, form: Form, *, inline: bool = False, source: Path | None = None
) -> list[Path]:
    """Write the models on the front as `1-by-times.onnx`, `2-plan-3.onnx`, ..., the fastest first,
    and what was measured of them as `front.json`; the paths of the models. `source` is the file of
    the float model (see `loadable`)."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot write here: {error.strerror or error}",
            where=Where(str(folder)),
            code="unwritable-file",
        ) from None
    paths: list[Path] = []
    for number, name in enumerate(answer.front, 1):
        words = re.findall(r"\w+", name)
        paths.append(folder / f"{number}-{'-'.join(words)}.onnx")
        model, load = answer.candidates[name].model, loader(paths[-1], source)
        save_or_copy(model, paths[-1], form=form, inline_weights=inline, load=load)
    found = answer.as_json()["candidates"]
    files = {
        path.name: {"name": n, **found[n]} for n, path in zip(answer.front, paths, strict=True)
    }
    save_text(folder / "front.json", json.dumps({"version": 1, "models": files}, indent=2) + "\n")
    return paths


class BudgetedLoop(Loop):
    """A loop that answers a request; `losses` tells what each rounding loses alone, by
    name (`sensitivity.Measurement`)."""

    def __init__(
        self,
        builder: Builder,
        samples: Sequence[Arrays],
        seconds: float,
        original: Model,
        form: Form,
        request: Request,
        losses: Callable[[], Mapping[str, float]],
    ) -> None:
        super().__init__(builder, samples, seconds, original, form)
        self.request, self.losses = request, losses
        self.outcomes: dict[str, Outcome] = {}
        self.unmet: list[str] = []
        self._names: dict[Choice, str] = {}
        self._metric: Metric | None = None
        if request.metric is not None:
            expected = list(self.answers(*self.tried[FLOAT].runs))
            self._metric = metric_on(request.metric, samples, expected)
        #: the float model, which is as fast as itself
        self._of_float = self._outcome(FLOAT, 1.0, 1.0)
        for budget in request.budgets:
            budget.short(self._of_float, self._of_float)

    def answered(self, first: Candidate) -> tuple[Raced, Answer]:
        """The candidate to write, and what was found; InputError (`budget-not-met`,
        `bad-metric`)."""
        raced = self.run(first)
        outcomes = {name: self.outcomes[name] for name in raced.race.laps}
        front = non_dominated(outcomes, lambda n: Point(outcomes[n].ratio, -outcomes[n].sqnr))
        takes = None if self._metric is None else self._metric.takes
        candidates = {name: each.candidate for name, each in self.tried.items()}
        return raced, Answer(takes, outcomes, front, candidates, self.unmet)

    def search(self, name: str, planned: Plan) -> None:
        """Add the plans on the way to the budgets, or the corners of the front."""
        request = self.request
        if not (request.budgets or request.front):
            return
        space = _Space(self, self.losses())
        fastest = space.known(planned)
        self._names.update({_ALL_FLOAT: FLOAT, fastest: name})
        if name in self.tried:
            space.learn(fastest, self._loss(name))

        def meets(choice: Choice) -> bool:
            name = self._built(choice, space)
            return name is not None and self._meets(name)

        exact = [budget for budget in request.budgets if budget.what != "latency"]
        if exact and not meets(fastest):
            nearest_that_meets(_ALL_FLOAT, fastest, space.plan, space.point, meets, MOST_TRIALS)
        elif request.budgets and not exact and meets(fastest):
            nearest_that_meets(fastest, _ALL_FLOAT, space.plan, space.point, meets, MOST_TRIALS)
        if request.noise_price:
            self._balance(fastest, space)
        if request.front:
            for choice in corners((fastest, _ALL_FLOAT), space.plan, space.point, MOST_TRIALS):
                self._built(choice, space)

    def _balance(self, start: Choice, space: _Space) -> None:
        """Add plans of less time * (1 + price * noise), each the solver's by the slopes of its
        logarithm at the last; that is concave in time and noise power, so that a plan that is as
        foretold is no worse than the one before (Hunter and Lange, 2004, on majorization)."""
        last = start
        for _ in range(MOST_BALANCED):
            time, loss = space.point(last)
            noise, price = math.sqrt(loss), self.request.noise_price
            if noise == 0:
                return
            slope = price / (2 * noise * (1 + price * noise))
            found = space.plan(time * slope)
            if found in self._names or self._built(found, space) is None:
                return
            last = found

    def choose(self, raced: Race, preferred: Sequence[str]) -> str:
        """Of those that meet the budgets the fastest; the most accurate, where only latency is
        asked for."""
        for name, lap in raced.laps.items():
            self.outcomes[name] = self._outcome(name, lap.milliseconds, lap.ratio)
        budgets = self.request.budgets
        self._of_float = self.outcomes[FLOAT]
        meeting = [
            name
            for name in preferred
            if all(budget.meets(self.outcomes[name], self._of_float) for budget in budgets)
        ]
        self._say_lossy([name for name in preferred if name not in meeting])
        if not meeting:
            return self._nearest(preferred)
        if budgets and all(budget.what == "latency" for budget in budgets):
            return min(meeting, key=self._inaccuracy)
        noise = {name: math.sqrt(self._loss(name)) for name in meeting}
        laps = {name: raced.laps[name] for name in meeting}
        return nearly_best(laps, meeting, noise, self.request.noise_price)

    def _say_lossy(self, names: Sequence[str]) -> None:
        """Note which part of the outputs rejects candidates."""
        limits = [budget.limit for budget in self.request.budgets if budget.what == "sqnr"]
        for name in names if limits else ():
            worst, least = self.tried[name].quality.worst, max(limits)
            if worst is not None and worst.judged_db < least:
                self.notes.append(
                    f"{name} is rejected: {db_text(worst.judged_db)} in '{worst.part}', the floor "
                    f"is {least:g} dB (--budget 'sqnr>=N' changes it)"
                )

    def _inaccuracy(self, name: str) -> tuple[float, float]:
        outcome = self.outcomes[name]
        return (0.0 if outcome.metric is None else -outcome.metric), -outcome.sqnr

    def _nearest(self, names: Sequence[str]) -> str:
        """Where nothing meets the budgets, what lacks least; InputError if nobody asks for it."""
        budgets = self.request.budgets

        def lack(name: str) -> tuple[int, float]:
            each = [budget.short(self.outcomes[name], self._of_float) for budget in budgets]
            limits = [abs(budget.limit) or 1.0 for budget in budgets]
            shares = [max(short, 0.0) / of for short, of in zip(each, limits, strict=True)]
            return sum(share > 0 for share in shares), sum(shares)

        best = min(names, key=lack)
        outcome = self.outcomes[best]
        self.unmet = [b.text for b in budgets if not b.meets(outcome, self._of_float)]
        if self.request.best_effort:
            return best
        raise InputError(
            f"nothing that was found meets {', '.join(budget.text for budget in budgets)}: the "
            f"nearest is '{best}' with {outcome}",
            code="budget-not-met",
            notes=(
                "nothing was written; --best-effort writes the nearest, and --allow-float lets the "
                "float model meet them",
            ),
        )

    def _built(self, choice: Choice, space: _Space) -> str | None:
        """The name of the candidate of a plan, which is built and judged once; None where it does
        not run, or something in it is dead."""
        if choice not in self._names:
            name = f"plan {sum(n.startswith('plan') for n in self._names.values()) + 1}"
            self._names[choice] = name
            if self.attempt(self.builder.quantized(name, space.states(choice))) is not None:
                space.learn(choice, self._loss(name))
        found = self.tried.get(self._names[choice])
        return None if found is None or found.quality.dead else found.candidate.name

    def _meets(self, name: str) -> bool:
        """Whether a candidate meets what the search is for: where accuracy is asked for, speed is
        what is made most of, and looked at in the end."""
        exact = [budget for budget in self.request.budgets if budget.what != "latency"]
        milliseconds, ratio = math.nan, math.nan
        if not exact:
            lap = self.race(dict.fromkeys((FLOAT, name)), self.seconds / 4).laps.get(name)
            if lap is None:
                return False
            milliseconds, ratio = lap.milliseconds, lap.ratio
        outcome = self._outcome(name, milliseconds, ratio)
        return all(b.meets(outcome, self._of_float) for b in exact or self.request.budgets)

    def _outcome(self, name: str, milliseconds: float, ratio: float) -> Outcome:
        """What was measured of a candidate; the metric once."""
        known, metric = self.outcomes.get(name), None
        if known is not None:
            metric = known.metric
        elif self._metric is not None:
            metric = self._metric.of_float
            if name != FLOAT:
                metric = self._metric(list(self.answers(*self.tried[name].runs)))
        sqnr = math.inf if name == FLOAT else self.tried[name].quality.worst_db
        self.outcomes[name] = Outcome(sqnr, milliseconds, ratio, metric)
        return self.outcomes[name]

    def _loss(self, name: str) -> float:
        db = self.tried[name].quality.worst_db
        return min(10 ** (-db / 10), _WORST) if db > -math.inf else _WORST


class _Space:
    """The plans of a model, with what is foretold of them."""

    def __init__(self, loop: Loop, losses: Mapping[str, float]) -> None:
        self._loop = loop
        values = loop.selection.values
        ops = list(values.block.ops)
        places = {op: number for number, op in enumerate(ops)}
        #: the loss of each rounding: of an op in a state, and of a value that is converted to codes
        self._first: dict[_Rounding, float] = {}
        for op, behavior in loop.selection.ops.items():
            for key in keys_of(op)[:1]:
                for state, loss in losses_of(key, losses).items():
                    loss = 0.0 if behavior.commutes else min(loss, _WORST)
                    self._first[places[op], state] = loss
        #: values with the numbers of the ops that make and that use them
        self._values: list[tuple[SSAValue, int | None, list[int]]] = []
        for value in values.all_values():
            owner, users = value.owner, [use.operation for use in value.uses]
            made = places[owner] if isinstance(owner, Operation) else None
            self._values.append((value, made, [places[user] for user in users]))
            for key in values.keys(value)[:1]:
                self._first[value] = min(losses.get(value_name(key), 0.0), _WORST)
        self._losses: Mapping[_Rounding, float] = self._first
        self._trials: list[tuple[frozenset[_Rounding], float]] = []
        self._states: dict[Choice, Mapping[int, Precision]] = {_ALL_FLOAT: {}}
        self._nanoseconds = {_ALL_FLOAT: loop.times.total(Precision.FLOAT)}

    def plan(self, weight: float) -> Choice:
        """The plan of least time + weight * loss."""
        ops = {key: loss for key, loss in self._losses.items() if isinstance(key, tuple)}
        values = {key: loss for key, loss in self._losses.items() if not isinstance(key, tuple)}
        return self.known(self._loop.plan(weight, Losses(ops, values)), weight)

    def known(self, found: Plan, weight: float = 0.0) -> Choice:
        """A plan by what it has not on floats, noted."""
        states = found.states.items()
        choice = frozenset((n, state) for n, state in states if state is not Precision.FLOAT)
        if choice not in self._states:
            self._states[choice] = found.states
            self._nanoseconds[choice] = found.parts.cost - weight * self._loss(choice)
        return choice

    def point(self, choice: Choice) -> Point:
        """Nanoseconds, and the sum of losses as they are known now."""
        return Point(self._nanoseconds[choice], self._loss(choice))

    def states(self, choice: Choice) -> Mapping[int, Precision]:
        """The state of each op."""
        return self._states[choice]

    def learn(self, choice: Choice, loss: float) -> None:
        """Correct losses by what a plan lost."""
        self._trials.append((self._rounded(choice), loss))
        self._losses = scaled(self._first, self._trials)

    def _loss(self, choice: Choice) -> float:
        return sum(self._losses.get(key, 0.0) for key in self._rounded(choice))

    def _rounded(self, choice: Choice) -> frozenset[_Rounding]:
        """What is rounded in a plan: ops, and values that floats are converted from."""
        states = dict(choice)
        found: list[_Rounding] = list(choice)
        for value, made, users in self._values:
            on_codes = made is not None and states.get(made) is Precision.CODES
            if not on_codes and any(states.get(user) is Precision.CODES for user in users):
                found.append(value)
        return frozenset(found)


def losses_of(key: str, losses: Mapping[str, float]) -> Mapping[Precision, float]:
    """What an op loses in each state, of what is known of its whole, of its weights and result, and
    of its result: noises add, so that differences are those of the rest."""
    result = losses.get(value_name(key), 0.0)
    kernel = losses.get(kernel_name(key), result)
    return {
        Precision.CODES: kernel,
        # Where the whole is not known, its operand is taken to lose what its result does.
        Precision.DYNAMIC: max(losses.get(key, kernel + result) - result, 0.0),
        Precision.WEIGHTS: max(kernel - result, 0.0),
    }
