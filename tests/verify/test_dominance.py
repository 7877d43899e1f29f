"""Definitions dominate their uses, across blocks and inside of ops nobody knows."""

from __future__ import annotations

import random
import time

import pytest
from xdsl.dialects import test
from xdsl.ir import Block, Region

from qdialect.errors import InputError
from qdialect.ir.context import new_context
from qdialect.ir.verify.dominance import dominator_tree
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.mlir.write import module_text

SOUND = {
    "captured by an op nobody knows": """
  "foo.region"() ({
    "foo.use"(%x) : (i32) -> ()
  }) : () -> ()""",
    "a graph": """
  "foo.region"() ({
    "foo.use"(%b) : (i32) -> ()
    %b = "foo.use"(%x) : (i32) -> i32
  }) : () -> ()""",
    "a block that dominates": """
  cf.cond_br %c, ^a, ^b
^a:
  %0 = arith.addi %x, %x : i32
  cf.br ^d
^d:
  %1 = arith.addi %0, %x : i32
  cf.br ^a
^b:""",
    "a loop": """
  cf.br ^head(%x : i32)
^head(%i: i32):
  cf.cond_br %c, ^body, ^exit
^body:
  %0 = arith.addi %i, %x : i32
  cf.br ^head(%0 : i32)
^exit:
  %1 = arith.addi %i, %i : i32""",
    "blocks in any order": """
  cf.br ^b
^a:
  %1 = arith.addi %0, %x : i32
  cf.br ^e
^b:
  %0 = arith.addi %x, %x : i32
  cf.br ^a
^e:""",
    "never reached": """
  cf.br ^e
^a:
  %0 = arith.addi %1, %x : i32
  cf.br ^e
^d:
  %1 = arith.addi %0, %x : i32
  cf.br ^e
^e:""",
}

FAULTY = {
    "a branch that may be not taken": """
  cf.cond_br %c, ^a, ^b
^a:
  %0 = arith.addi %x, %x : i32
  cf.br ^b
^b:
  %1 = arith.addi %0, %x : i32""",
    "an argument of another block": """
  cf.cond_br %c, ^a(%x : i32), ^b
^a(%i: i32):
  cf.br ^b
^b:
  %1 = arith.addi %x, %i : i32""",
    "a later iteration": """
  cf.br ^head
^head:
  %1 = arith.addi %0, %x : i32
  cf.cond_br %c, ^body, ^exit
^body:
  %0 = arith.addi %x, %x : i32
  cf.br ^head
^exit:""",
    "captured before it is defined": """
  "foo.region"() ({
    "foo.use"(%0) : (i32) -> ()
  }) : () -> ()
  %0 = arith.addi %x, %x : i32""",
    "captured from one way of two": """
  cf.cond_br %c, ^a, ^b
^a:
  %0 = arith.addi %x, %x : i32
  cf.br ^b
^b:
  "foo.region"() ({
    "foo.use"(%0) : (i32) -> ()
  }) : () -> ()""",
}


def verified(body: str) -> str:
    ctx = new_context(allow_unregistered=True)
    text = f"func.func @f(%c: i1, %x: i32) {{{body}\n  return\n}}\n"
    module = read_module(text, ctx, "x.mlir")
    verify_module(module, ctx)
    return module_text(module, ctx)


@pytest.mark.parametrize("name", SOUND)
def test_uses_that_are_dominated(name: str) -> None:
    ctx = new_context(allow_unregistered=True)
    text = verified(SOUND[name])
    assert module_text(read_module(text, ctx), ctx) == text


@pytest.mark.parametrize("name", FAULTY)
def test_uses_that_are_not_dominated(name: str) -> None:
    with pytest.raises(InputError, match=r"operand #\d does not dominate this use") as caught:
        verified(FAULTY[name])
    assert caught.value.where is not None


def region(successors: list[list[int]]) -> Region:
    blocks = [Block() for _ in successors]
    for block, numbers in zip(blocks, successors, strict=True):
        block.add_op(test.TestTermOp(successors=[blocks[n] for n in numbers]))
    return Region(blocks)


def test_dominator_trees_of_random_graphs() -> None:
    rng = random.Random(3)
    for _ in range(150):
        count = rng.randint(1, 9)
        graph = [rng.sample(range(count), rng.randint(0, min(count, 2))) for _ in range(count)]
        made = region(graph)
        blocks, tree = list(made.blocks), dominator_tree(made)
        reached, pending = {0}, [0]
        while pending:
            new = set(graph[pending.pop()]) - reached
            reached |= new
            pending += new
        assert set(tree) == {blocks[n] for n in reached}
        above = {inner: block for block, all_inner in tree.items() for inner in all_inner}
        for block in tree:
            found, at = {block}, block
            while at in above:
                at = above[at]
                found.add(at)
            # By definition: without the block, the other cannot be reached.
            assert found == {other for other in tree if _is_cut(graph, blocks, other, block)}


def _is_cut(graph: list[list[int]], blocks: list[Block], without: Block, target: Block) -> bool:
    if without is target or without is blocks[0]:
        return True
    seen, pending = {0}, [0]
    while pending:
        for n in graph[pending.pop()]:
            if n not in seen and blocks[n] is not without:
                seen.add(n)
                pending.append(n)
    return target not in {blocks[n] for n in seen}


def test_many_blocks_take_little_time() -> None:
    count = 5_000
    made = region([[n + 1, max(n - 7, 1)] for n in range(count - 1)] + [[]])
    began = time.perf_counter()
    assert len(dominator_tree(made)) == count
    assert time.perf_counter() - began < 3
