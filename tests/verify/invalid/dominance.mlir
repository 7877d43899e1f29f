func.func @other_branch(%c: i1, %x: i32) {
  cf.cond_br %c, ^a, ^b
^a:
  %0 = arith.addi %x, %x : i32
  cf.br ^b
^b:
  %1 = arith.addi %0, %x : i32
  return
}
// -----
func.func @later_in_block(%x: i32) -> i32 {
  %0 = arith.addi %1, %x : i32
  %1 = arith.addi %x, %x : i32
  return %0 : i32
}
// -----
func.func @itself() {
  %0 = "foo.use"(%0) : (i32) -> i32
  return
}
// -----
func.func @second_operand(%x: i32) {
  "foo.use"(%x, %0, %0) : (i32, i32, i32) -> ()
  %0 = "foo.def"() : () -> i32
  return
}
// -----
func.func @argument_of_another_block(%c: i1, %x: i32) {
  cf.cond_br %c, ^a(%x : i32), ^b
^a(%i: i32):
  cf.br ^b
^b:
  %1 = arith.addi %x, %i : i32
  return
}
// -----
func.func @argument_of_a_later_block() {
  cf.br ^bb1(%i : i32)
^bb1(%i: i32):
  return
}
// -----
func.func @loop(%c: i1, %x: i32) {
  cf.br ^head
^head:
  %1 = arith.addi %0, %x : i32
  cf.cond_br %c, ^body, ^exit
^body:
  %0 = arith.addi %x, %x : i32
  cf.br ^head
^exit:
  return
}
// -----
func.func @captured_before() {
  scf.execute_region {
    "foo.use"(%0) : (i32) -> ()
    scf.yield
  }
  %0 = "foo.def"() : () -> i32
  return
}
// -----
func.func @captured_by_unknown(%c: i1) {
  "foo.region"() ({
    "foo.use"(%0) : (i32) -> ()
  }) : () -> ()
  %0 = "foo.def"() : () -> i32
  return
}
// -----
func.func @captured_one_way_of_two(%c: i1, %x: i32) {
  cf.cond_br %c, ^a, ^b
^a:
  %0 = arith.addi %x, %x : i32
  cf.br ^b
^b:
  "foo.region"() ({
    "foo.use"(%0) : (i32) -> ()
  }) : () -> ()
  return
}
// -----
func.func @out_of_a_region(%c: i1) {
  scf.if %c {
    %0 = "foo.def"() : () -> i32
  }
  "foo.use"(%0) : (i32) -> ()
  return
}
// -----
func.func @out_of_an_unknown_region() {
  "foo.region"() ({
    %0 = "foo.def"() : () -> i32
  }) : () -> ()
  "foo.use"(%0) : (i32) -> ()
  return
}
// -----
func.func @sibling_regions(%c: i1) {
  %r = scf.if %c -> i32 {
    %0 = "foo.def"() : () -> i32
    scf.yield %0 : i32
  } else {
    scf.yield %0 : i32
  }
  return
}
// -----
func.func @isolated(%x: i32) {
  builtin.module {
    "foo.use"(%x) : (i32) -> ()
  }
  return
}
// -----
func.func @isolated_result() {
  %0 = "foo.def"() : () -> i32
  builtin.module {
    func.func @g() -> i32 {
      return %0 : i32
    }
  }
  return
}
// -----
%0 = "foo.def"() : () -> i32
func.func @of_module() -> i32 {
  return %0 : i32
}
// -----
func.func @isolated_deep(%x: i32) {
  builtin.module {
    "foo.region"() ({
      "foo.use"(%x) : (i32) -> ()
    }) : () -> ()
  }
  return
}
// -----
func.func @unreachable_inside(%c: i1) {
  return
^dead:
  %r = scf.if %c -> i32 {
    %0 = "foo.use"(%1) : (i32) -> i32
    %1 = "foo.def"() : () -> i32
    scf.yield %0 : i32
  } else {
    %2 = "foo.def"() : () -> i32
    scf.yield %2 : i32
  }
  return
}
// -----
func.func @own_result_inside() {
  %0 = "foo.region"() ({
    "foo.use"(%0) : (i32) -> ()
  }) : () -> i32
  return
}
// -----
func.func @own_result_in_scf(%c: i1) {
  %0 = scf.if %c -> i32 {
    scf.yield %0 : i32
  } else {
    %1 = "foo.def"() : () -> i32
    scf.yield %1 : i32
  }
  return
}
// -----
func.func @two_errors() {
  "foo.use"(%0) : (i32) -> ()
  "foo.use"(%1) : (i32) -> ()
  %0 = "foo.def"() : () -> i32
  %1 = "foo.def"() : () -> i32
  return
}
func.func @another() {
  "foo.use"(%0) : (i32) -> ()
  %0 = "foo.def"() : () -> i32
  return
}
// -----
func.func @multi_results() {
  "foo.use"(%0#1) : (i32) -> ()
  %0:2 = "foo.def"() : () -> (i32, i32)
  return
}
// -----
func.func @loop_carried(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %a = arith.addi %b, %i : index
    %b = arith.addi %i, %i : index
  }
  return
}
// -----
func.func @lambda(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  return %0 : tensor<4xf32>
}
