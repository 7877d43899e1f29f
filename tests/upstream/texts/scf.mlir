func.func @f(%lb: index, %ub: index, %s: index, %i: i32, %c: i1, %t: tensor<4xf32>, %x: f32) {
  scf.for %a = %lb to %ub step %s { "test.a"() : () -> () }
  %r:2 = scf.for %a = %lb to %ub step %s iter_args(%p = %x, %q = %i) -> (f32, i32) { scf.yield %p, %q : f32, i32 } {foo = 1}
  scf.for unsigned %a = %i to %i step %i : i32 { } 
  scf.if %c { "test.a"() : () -> () } else { "test.b"() : () -> () } {foo}
  %v = scf.if %c -> (i32) { scf.yield %i : i32 } else { scf.yield %i : i32 }
  scf.if %c { "test.a"() : () -> () }
  %w:2 = scf.while (%p = %x, %q = %i) : (f32, i32) -> (i32, i32) { scf.condition(%c) %q, %q : i32, i32 } do { ^bb0(%z: i32, %zz: i32): scf.yield %x, %z : f32, i32 } attributes {foo}
  scf.while : () -> () { scf.condition(%c) } do { scf.yield }
  scf.parallel (%a, %b) = (%lb, %lb) to (%ub, %ub) step (%s, %s) { "test.a"() : () -> () scf.reduce } {foo}
  %u = scf.parallel (%a) = (%lb) to (%ub) step (%s) init (%x) -> f32 { scf.reduce(%x : f32) { ^bb0(%l: f32, %m: f32): scf.reduce.return %l : f32 } }
  %o = scf.forall (%a, %b) in (%ub, 4) shared_outs(%ot = %t) -> (tensor<4xf32>) { scf.forall.in_parallel { tensor.parallel_insert_slice %t into %ot[0][4][1] : tensor<4xf32> into tensor<4xf32> } } {mapping = [#gpu.block<x>, #gpu.block<y>]}
  scf.forall (%a, %b) = (0, %lb) to (%ub, 4) step (1, %s) { }
  %e = scf.execute_region -> i32 { scf.yield %i : i32 } {foo}
  scf.execute_region no_inline { scf.yield }
  scf.index_switch %lb case 2 { scf.yield } case 5 { scf.yield } default { scf.yield }
  %k = scf.index_switch %lb {foo} -> i32 case 2 { scf.yield %i : i32 } default { scf.yield %i : i32 }
  cf.switch %i : i32, [ default: ^bb1(%x : f32), 42: ^bb1(%x : f32), 43: ^bb2 ]
^bb1(%g: f32):
  %y = arith.select %c, %i, %i : i32
  %vv = arith.constant dense<true> : vector<2xi1>
  %v2 = arith.constant dense<1> : vector<2xi32>
  %y2 = arith.select %vv, %v2, %v2 : vector<2xi1>, vector<2xi32>
  return
^bb2:
  cf.switch %i : i32, [ default: ^bb1(%x : f32)]
}
