func.func @empty_block() {
^bb0:
  return
^bb1:
^bb2:
  return
}
// -----
func.func @no_terminator() {
  %0 = arith.constant 1 : i32
}
// -----
func.func @no_terminator_unknown() {
  "foo.op"() : () -> ()
}
// -----
func.func @no_terminator_second() {
  cf.br ^bb1
^bb1:
  %0 = arith.constant 1 : i32
}
// -----
func.func @not_last() {
  return
  %0 = arith.constant 1 : i32
  return
}
// -----
func.func @branch_not_last() {
  cf.br ^bb1
  %0 = arith.constant 1 : i32
^bb1:
  return
}
// -----
func.func @entry_has_predecessor() {
^bb0:
  cf.br ^bb1
^bb1:
  cf.br ^bb0
}
// -----
func.func @branch_operand_count(%x: i32) {
  cf.br ^bb1(%x, %x : i32, i32)
^bb1(%a: i32):
  return
}
// -----
func.func @branch_no_operand(%x: i32) {
  cf.br ^bb1
^bb1(%a: i32):
  return
}
// -----
func.func @branch_operand_type(%x: i64) {
  cf.br ^bb1(%x : i64)
^bb1(%a: i32):
  return
}
// -----
func.func @cond_branch_operand_type(%c: i1, %x: i64, %y: i32) {
  cf.cond_br %c, ^bb1(%y : i32), ^bb2(%y, %x : i32, i64)
^bb1(%a: i32):
  return
^bb2(%b: i32, %d: i32):
  return
}
// -----
func.func @cond_type(%c: i32) {
  cf.cond_br %c, ^bb1, ^bb1
^bb1:
  return
}
// -----
func.func @generic_cond_type(%c: i32) {
  "cf.cond_br"(%c)[^bb1, ^bb1] {operandSegmentSizes = array<i32: 1, 0, 0>} : (i32) -> ()
^bb1:
  return
}
// -----
func.func @successor_of_non_terminator(%a: i32) {
  %0 = "arith.addi"(%a, %a)[^bb1] : (i32, i32) -> i32
^bb1:
  return
}
// -----
func.func @successor_of_unknown() {
  "foo.op"()[^bb1] : () -> ()
  return
^bb1:
  return
}
// -----
func.func @return_count(%x: i32) -> (i32, i32) {
  return %x : i32
}
// -----
func.func @return_type(%x: i32) -> i64 {
  return %x : i32
}
// -----
func.func @return_nothing() -> i32 {
  return
}
// -----
func.func @return_something(%x: i32) {
  return %x : i32
}
// -----
"func.func"() ({
^bb0(%a: i32):
  "func.return"() : () -> ()
}) {function_type = (i64) -> (), sym_name = "entry_type"} : () -> ()
// -----
"func.func"() ({
^bb0(%a: i32):
  "func.return"() : () -> ()
}) {function_type = (i32, i32) -> (), sym_name = "entry_count"} : () -> ()
// -----
"func.func"() ({
  "func.return"() : () -> ()
}) {function_type = i32, sym_name = "no_function_type"} : () -> ()
// -----
"func.func"() ({
  "func.return"() : () -> ()
}) {function_type = () -> ()} : () -> ()
// -----
"func.func"() ({
  "func.return"() : () -> ()
}) {sym_name = "f"} : () -> ()
// -----
"func.func"() ({
  "func.return"() : () -> ()
}) {function_type = () -> (), sym_name = 4 : i32} : () -> ()
// -----
func.func @parent() {
  scf.execute_region {
    return
  }
  return
}
// -----
func.func @yield_in_function(%x: i32) {
  scf.yield
}
// -----
func.func @if_without_yield(%c: i1) {
  %0 = scf.if %c -> i32 {
    %1 = arith.constant 1 : i32
    scf.yield %1 : i32
  }
  return
}
// -----
func.func @if_yield_type(%c: i1, %x: i64) {
  %0 = scf.if %c -> i32 {
    scf.yield %x : i64
  } else {
    scf.yield %x : i64
  }
  return
}
// -----
func.func @if_other_terminator(%c: i1) {
  scf.if %c {
    "foo.op"() : () -> ()
    "func.return"() : () -> ()
  }
  return
}
// -----
func.func @for_types(%n: i32, %m: index) {
  "scf.for"(%n, %m, %n) ({
  ^bb0(%i: i32):
    scf.yield
  }) : (i32, index, i32) -> ()
  return
}
// -----
func.func @while_args(%x: i32) {
  %0 = scf.while (%a = %x) : (i32) -> i64 {
    %c = "foo.c"() : () -> i1
    scf.condition(%c) %a : i32
  } do {
  ^bb0(%b: i64):
    scf.yield %x : i32
  }
  return
}
// -----
builtin.module {
  builtin.module {
    func.func @nested() {
      "foo.op"() : () -> ()
    }
  }
}
// -----
"builtin.module"() ({
^bb0:
  "foo.op"() : () -> ()
^bb1:
  "foo.op"() : () -> ()
}) : () -> ()
// -----
"builtin.module"() ({
^bb0(%x: i32):
  "foo.op"() : () -> ()
}) : () -> ()
// -----
"builtin.module"() : () -> ()
// -----
func.func @two_regions(%x: i1) {
  "scf.if"(%x) ({
    scf.yield
  }) : (i1) -> ()
  return
}
// -----
func.func @private_body(i32) -> i32
// -----
func.func public @declared(i32) -> i32
// -----
func.func @switch(%x: i32) {
  cf.switch %x : i32, [
    default: ^bb1,
    42: ^bb1,
    42: ^bb1
  ]
^bb1:
  return
}
// -----
func.func @assert(%x: i32) {
  "cf.assert"(%x) {msg = "no"} : (i32) -> ()
  return
}
