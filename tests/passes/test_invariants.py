"""What holds of every pass on any graph: idempotence, order independence, provenance,
determinism, linear work."""

from __future__ import annotations

from collections import Counter

import pytest
from contract_judge import distance
from families import GRID, quant
from random_graphs import random_graph
from rewrite_support import Program, apply, evaluate, fired, optimized, parse, tensor
from xdsl.dialects.builtin import FileLineColLoc, UnknownLoc
from xdsl.ir import Operation

from qdialect.algebra.contract import EXACT, Contract
from qdialect.errors import QError
from qdialect.ir.ops import keys_of
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.plugins.mlir.write import module_text
from qdialect.rewrite import Driver, Refusal, Rewriter, Rule
from tests.generators.orders import shuffle, structure

LEVELS = ["exact", "bounded", "saturation", "relaxed"]
PIPELINES = [
    *(f"{n}{{numerics={level}}}" for n in ("fold-rescale", "combine-rescale") for level in LEVELS),
    "integerize",
    "sink-rescale",
    "form-tables",
    "canonicalize",
    "cse",
    "dce",
    *(optimize_pipeline("generic", level) for level in ("exact", "bounded")),
]
SEEDS = range(24)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_twice_is_once(pipeline: str) -> None:
    for seed in SEEDS:
        module, ctx = parse(random_graph(seed).text)
        apply(module, ctx, pipeline)
        once = module_text(module, ctx)
        assert not fired(apply(module, ctx, pipeline)), f"{pipeline} on graph {seed}\n{once}"
        assert module_text(module, ctx) == once


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_op_order_does_not_matter(pipeline: str) -> None:
    for seed in SEEDS:
        module, ctx = parse(random_graph(seed).text)
        apply(module, ctx, pipeline)
        for order in range(2):
            other, other_ctx = parse(random_graph(seed).text)
            shuffle(other, order)
            apply(other, other_ctx, pipeline)
            assert structure(other) == structure(module), f"{pipeline} on graph {seed}"


def test_the_exact_pipeline_changes_no_bit() -> None:
    seen: Counter[str] = Counter()
    for seed in range(100, 160):
        program = random_graph(seed)
        module, ctx = parse(program.text)
        before = evaluate(module, ctx, program.inputs, "real")
        remarks = fired(apply(module, ctx, optimize_pipeline("generic", "exact")))
        seen.update(remark.rule for remark in remarks)
        after = evaluate(module, ctx, program.inputs, "real")
        far = max(distance(a, b) for a, b in zip(before, after, strict=True))
        assert far == 0, f"graph {seed}: {[(r.rule, r.location) for r in remarks]}"
    assert len(seen) >= 10, seen


def test_two_runs_give_one_text() -> None:
    pipeline = optimize_pipeline("generic", "saturation")
    for seed in SEEDS:
        text = random_graph(seed).text
        assert optimized(text, pipeline) == optimized(text, pipeline)


# -- provenance ---------------------------------------------------------------------

KEYED = """
!a = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x!quant.uniform<u8:f32, 0.5:131>>
func.func @main(%x: !a) -> (!b, !b) {
  %0 = quant.dcast %x {nn.key = "in"} : !a to tensor<4xf32>
  %1 = nn.tanh %0 {nn.key = "tanh"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.relu %1 {nn.key = "relu"} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = quant.qcast %2 {nn.key = "q"} : tensor<4xf32> to !b
  %4 = quant.rescale %x {nn.key = "rescale"} : !a to !b
  %5 = nn.clip %4 min -1.0 {nn.key = "clip"} : (!b) -> !b
  func.return %3, %5 : !b, !b
}
"""


def test_keys_and_locations_are_carried() -> None:
    module, ctx = parse(KEYED)
    wanted = {"nn.tanh": "tanh", "nn.relu": "relu", "nn.clip": "clip", "quant.rescale": "rescale"}
    lines = {op.name: op.location for op in module.walk()}
    apply(module, ctx, "integerize,fold-rescale,sink-rescale,combine-rescale")
    body = [op for op in module.walk() if op.name.startswith(("nn.", "quant."))]
    assert sorted(op.name for op in body) == sorted(wanted)
    for op in body:
        assert keys_of(op) == (wanted[op.name],)
        location = op.location
        assert isinstance(location, FileLineColLoc)
        if op.name in ("nn.clip", "quant.rescale"):
            assert location in (lines["nn.clip"], lines["quant.rescale"])
        else:
            assert location in (lines[op.name], lines["quant.qcast"])


def test_a_remark_says_where(tmp_path: object) -> None:
    module, ctx = parse(KEYED)
    (clip,) = fired(apply(module, ctx, "sink-rescale"))
    assert (clip.rule, clip.key, clip.location) == ("sink-through-tied", "clip", "<stdin>:10:8")
    assert "contract" in ctx.remarks.to_json()


# -- work -----------------------------------------------------------------------------


def residual(blocks: int) -> Program:
    """A chain of residual blocks of float ops between casts, six ops each."""
    p = Program(f"{blocks} residual blocks")
    q, other = GRID[0], quant("u8", 0.25, 128)
    kind, floats = tensor((4,), q), tensor((4,), "f32")
    x = p.argument(kind, None)  # type: ignore[arg-type]
    for _ in range(blocks):
        f = p.op(f"quant.dcast {x}", kind, floats)
        g = p.nn(f"tanh {f}", [floats], floats)
        g = p.op(f"quant.qcast {g}", floats, tensor((4,), other))
        g = p.op(f"quant.dcast {g}", tensor((4,), other), floats)
        g = p.nn(f"add {f}, {g}", [floats, floats], floats)
        x = p.op(f"quant.qcast {p.nn(f'relu {g}', [floats], floats)}", floats, kind)
    return p.returns(x, kind)


def rescales(count: int) -> Program:
    """A chain of lossless rescales and movements."""
    p = Program(f"{count} rescales")
    kinds = [tensor((4,), quant("i16", 0.5, z)) for z in (0, 1)]
    x = p.argument(kinds[0], None)  # type: ignore[arg-type]
    for n in range(count):
        x = p.op(f"quant.rescale {x}", kinds[n % 2], kinds[1 - n % 2])
        x = p.nn(f"relu {x}", [kinds[1 - n % 2]], kinds[1 - n % 2])
    return p.returns(x, kinds[count % 2])


def visits(program: Program, pipeline: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many ops the driver looked at."""
    count = 0
    original = Driver._visit

    def counted(self: Driver, op: Operation, rewriter: Rewriter) -> bool:
        nonlocal count
        count += 1
        return original(self, op, rewriter)

    module, ctx = parse(program.text)
    with monkeypatch.context() as patch:
        patch.setattr(Driver, "_visit", counted)
        apply(module, ctx, pipeline)
    return count


@pytest.mark.parametrize(
    ("chain", "pipeline"),
    [
        (residual, "integerize"),
        (residual, "fold-rescale{numerics=relaxed}"),
        (rescales, "fold-rescale"),
        (rescales, "canonicalize"),
        (residual, "move-casts"),
        (residual, "move-casts{boundary=maximize-integer}"),
    ],
)
def test_work_grows_with_the_graph(chain, pipeline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = visits(chain(50), pipeline, monkeypatch)
    large = visits(chain(500), pipeline, monkeypatch)
    assert 0 < large <= 11 * small, f"{small} visits became {large} on ten times the ops"


def test_many_rescales_sink_through_many_movements() -> None:
    module, ctx = parse(rescales(40).text)
    assert len(fired(apply(module, ctx, "sink-rescale"))) == 1
    names = [op.name for op in module.walk() if op.name.startswith(("nn.", "quant."))]
    assert names == ["nn.relu"] * 40 + ["quant.rescale"] * 40


def test_one_rescale_moves_through_very_many_movements() -> None:
    kinds = [tensor((4,), q) for q in (GRID[0], GRID[2])]
    p = Program("a rescale below 4 500 movements")
    x = p.argument(kinds[0], None)  # type: ignore[arg-type]
    for _ in range(4500):
        x = p.nn(f"flip {x} axes [0]", [kinds[0]], kinds[0])
    p.returns(p.op(f"quant.rescale {x}", *kinds), kinds[1])
    module, ctx = parse(p.text)
    assert len(fired(apply(module, ctx, "hoist-rescale"))) == 1
    names = [op.name for op in module.walk() if op.name.startswith(("nn.", "quant."))]
    assert names[0] == "quant.rescale"


class Undoing(Rule[Operation]):
    """Replaces an op by a copy of itself, for ever."""

    name = "undoing"

    def roots(self) -> list[str]:
        return ["quant.rescale"]

    def match(self, op: Operation) -> Operation | None:
        return op

    def check(self, match: Operation) -> Contract | Refusal:
        return EXACT

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        copy = match.clone()
        rewriter.insert(copy, match)
        rewriter.replace(match, copy.results)


def test_ops_without_locations_may_move_as_often_as_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rewrites are counted by op, not by a location that generated ops do not have."""
    monkeypatch.setattr("qdialect.rewrite.driver.PER_OP", 1)
    monkeypatch.setattr("qdialect.rewrite.driver.AT_LEAST", 16)
    lines = ["%0 = nn.relu %x : (!b) -> !b"]
    for n in range(30):
        lines.append(f"%r{n} = quant.rescale %{n} : !b to !a")
        lines.append(f"%s{n} = quant.rescale %r{n} : !a to !b")
        lines.append(f"%{n + 1} = nn.reshape %s{n} : (!b) -> !b")
    text = f"""
    !a = tensor<4x!quant.uniform<i8:f32:0, {{0.75:3, 0.5, 0.25, 0.5}}>>
    !b = tensor<4x!quant.uniform<u8:f32:0, {{0.5:128, 0.5, 0.5, 0.25}}>>
    func.func @f(%x: !b) -> !b {{
      {" ".join(lines)}
      func.return %30 : !b
    }}
    """
    module, ctx = parse(text)
    for op in module.walk():
        op.location = UnknownLoc()
    done = fired(apply(module, ctx, "sink-rescale"))
    assert len(done) == 30 * 30 + 30


def test_rules_that_undo_one_another_are_stopped() -> None:
    module, ctx = parse(rescales(3).text)
    driver = Driver(ctx, [Undoing(ctx)], pass_name="circle")
    with pytest.raises(QError, match="pass 'circle' does not terminate") as caught:
        driver.run(module)
    assert caught.value.code == "no-termination"
