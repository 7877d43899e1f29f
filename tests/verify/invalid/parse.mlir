func.func @undefined_block() {
  cf.br ^missing
}
// -----
func.func @block_twice() {
^bb1:
  return
^bb1:
  return
}
// -----
func.func @block_paren() {
^bb1 (%a : i32:
  return
}
// -----
func.func @block_arg_name() {
^bb1 (i32):
  return
}
// -----
func.func @block_arg_type() {
^bb1 (%a):
  return
}
// -----
func.func @branch_types() {
  cf.br ^bb2(
  return
}
// -----
func.func @block_colon() {
^bb1 %a: i32 :
  return
}
// -----
func.func @op_type() {
  "foo"() : i32
  return
}
// -----
func.func @empty_name() {
  ""() : () -> ()
  return
}
// -----
func.func @unknown_custom() {
  test.asd
}
// -----
func.func @unknown_plain() {
  asd
}
// -----
func.func @operand_types() {
  %1 = "foo"() : (i32) -> i64
  return
}
// -----
func.func @operand_types_more(%x: i32) {
  %1 = "foo"(%x, %x) : (i32) -> i64
  return
}
// -----
func.func @redefined() {
  %x = "foo"() : () -> i32
  %x = "foo"() : () -> i32
  return
}
// -----
func.func @redefined_argument(%x: i32) {
  %x = "foo"() : () -> i32
  return
}
// -----
func.func @redefined_number() {
  %0 = "foo"() : () -> i32
  "bar"() : () -> ()
  %0 = "foo"() : () -> i32
  return
}
// -----
func.func @redefined_second() {
  %a, %b = "foo"() : () -> (i32, i32)
  %b, %c = "foo"() : () -> (i32, i32)
  return
}
// -----
func.func @redefined_in_signature(%x: i32, %x: i32) {
  return
}
// -----
func.func @redefined_block_argument() {
^bb1(%a: i64):
  cf.br ^bb2(%a : i64)
^bb2(%a: i64):
  return
}
// -----
func.func @redefined_inside(%c: i1, %x: i32) {
  scf.if %c {
    %x = "foo"() : () -> i32
  }
  return
}
// -----
func.func @undeclared() {
  %x = "foo"(%y) : (i32) -> i32
  return
}
// -----
func.func @undeclared_two() {
  %x = "foo"(%y, %z) : (i32, i32) -> i32
  "bar"(%w) : (i32) -> ()
  return
}
// -----
func.func @undeclared_custom(%a: i32) -> i32 {
  %x = arith.addi %a, %y : i32
  return %x : i32
}
// -----
func.func @undeclared_result(%a: i32) {
  "foo"(%a#1) : (i32) -> ()
  return
}
// -----
func.func @undeclared_after_region() {
  scf.execute_region {
    %i = "foo"() : () -> index
    scf.yield
  }
  "bar"(%i) : (index) -> ()
  return
}
// -----
func.func @unknown_type(%a : intt) {
}
// -----
func.func @type_differs(%a: i32) {
  "foo"(%a) : (i64) -> ()
  return
}
// -----
func.func @type_differs_later() {
  %0 = "foo"() : () -> i32
  %1 = arith.addi %0, %0 : i64
  return
}
// -----
func.func @type_differs_forward() -> i8 {
  cf.br ^bb2
^bb1:
  return %1 : i8
^bb2:
  %1 = "foo"() : () -> f32
  cf.br ^bb1
}
// -----
func.func @type_differs_two_uses() {
  cf.br ^bb2
^bb1:
  "foo"(%1) : (i8) -> ()
  "foo"(%1) : (i16) -> ()
  return
^bb2:
  %1 = "foo"() : () -> i8
  cf.br ^bb1
}
// -----
func.func @type_differs_return(%a: tensor<4xf32>) -> tensor<4xf16> {
  return %a : tensor<4xf16>
}
// -----
func.func @successor_type() {
  %c = "foo"() : () -> i1
  cf.cond_br %c, ^bb0(%c, %c : i32, ^bb0)
}
// -----
func.func @no_block_name() {
  %c = "foo"() : () -> i1
  cf.cond_br %c, ^bb0(%c : i1), i32
}
// -----
func.func @dots(.)
// -----
func.func @two_dots(..)
// -----
func.func @namespace(!<"">) -> () {
  return
}
// -----
func.func @unbalanced(!foo<) -> () {
  return
}
// -----
func.func @alias(!unknown_alias) -> () {
  return
}
// -----
func.func @attribute_alias() attributes {a = #missing} {
  return
}
// -----
!foo.bar = i32
// -----
#foo.bar = 4
// -----
!missing i32
// -----
#missing 4
// -----
!missing =
// -----
!twice = i32
!twice = i32
// -----
#twice = 1
#twice = 2
// -----
func.func @t(tuple i32>)
// -----
func.func @t(tuple<i32)
// -----
func.func @regions() {
  "foo"() ({},{} : () -> ()
}
// -----
func.func @result_count() {
  %0: = "foo"() : () -> (i32, i32)
  return
}
// -----
func.func @zero_results() {
  %0:0 = "foo"() : () -> (i32, i32)
  return
}
// -----
func.func @result_name() {
  %0, = "foo"() : () -> (i32, i32)
  return
}
// -----
func.func @fewer_results() {
  %0:1 = "foo"() : () -> (i32, i32)
  return
}
// -----
func.func @more_results() {
  %0, %1, %2 = "foo"() : () -> (i32, i32)
  return
}
// -----
func.func @no_results() {
  %0 = "foo"() : () -> ()
  return
}
// -----
func.func @custom_more_results(%a: i32) {
  %0:2 = arith.addi %a, %a : i32
  return
}
// -----
func.func @no_equals() {
  %0:2 "foo"() : () -> (i32, i32)
  return
}
// -----
func.func @attribute_name() {
  "foo"() {""} : () -> ()
  return
}
// -----
func.func @attribute_twice() {
  "foo"() {a = 1, a = 2} : () -> ()
  return
}
// -----
func.func @attribute_value() {
  "foo"() {a = } : () -> ()
  return
}
// -----
func.func @attribute_brace() {
  "foo"() {a = 1 : () -> ()
  return
}
// -----
func.func @end_of_line() {
  %0 = "foo"()
  return
}
// -----
func.func @end_of_line_comment() {
  %0 = "foo"()  // nothing
  // more
  return
}
// -----
@foo
// -----
func.func @brace() {
  return
// -----
func.func @paren( {
  return
}
// -----
func.func {
}
// -----
func.func @missing_operand(%a: i32) {
  %0 = arith.addi %a : i32
  return
}
// -----
func.func @missing_colon(%a: i32) {
  %0 = arith.addi %a, %a i32
  return
}
// -----
func.func @missing_type(%a: i32) {
  %0 = arith.addi %a, %a :
  return
}
// -----
func.func @missing_to(%a: i32) {
  %0 = arith.extsi %a : i32 i64
  return
}
// -----
func.func @quoted(%a: i32) {
  %0 = %a
  return
}
// -----
func.func @unclosed_string() {
  "foo() : () -> ()
  return
}
// -----
func.func @number() {
  %0 = arith.constant 1e : f32
  return
}
// -----
func.func @too_large() {
  %0 = arith.constant 300 : i8
  return
}
// -----
func.func @negative_unsigned() {
  "foo"() {a = -1 : ui8} : () -> ()
  return
}
// -----
func.func @float_for_integer() {
  %0 = arith.constant 1.5 : i32
  return
}
// -----
func.func @integer_for_float() {
  %0 = arith.constant 1 : f32
  return
}
// -----
func.func @dense_count() {
  %0 = arith.constant dense<[1, 2, 3]> : tensor<4xi32>
  return
}
// -----
func.func @dense_ragged() {
  %0 = arith.constant dense<[[1, 2], [3]]> : tensor<2x2xi32>
  return
}
// -----
func.func @dense_type() {
  %0 = arith.constant dense<1> : i32
  return
}
// -----
func.func @dense_element() {
  %0 = arith.constant dense<1.0> : tensor<4xi32>
  return
}
// -----
func.func @dense_bracket() {
  %0 = arith.constant dense<[1, 2> : tensor<2xi32>
  return
}
// -----
func.func @tensor_extent(%a: tensor<-4xf32>) {
  return
}
// -----
func.func @tensor_element(%a: tensor<4x>) {
  return
}
// -----
func.func @tensor_unknown_element(%a: tensor<4xfoo>) {
  return
}
// -----
func.func @tensor_close(%a: tensor<4xf32) {
  return
}
// -----
func.func @tensor_of_none(%a: tensor<4xnone>, %b: tensor<4x(i32) -> i32>) {
  return
}
// -----
func.func @memref_element(%a: memref<4xtuple<i32>>) {
  return
}
// -----
func.func @vector_dynamic(%a: vector<?xf32>) {
  return
}
// -----
func.func @vector_zero(%a: vector<0xf32>) {
  return
}
// -----
func.func @integer_width(%a: i99999999) {
  return
}
// -----
func.func @complex(%a: complex<i1x>) {
  return
}
// -----
func.func @complex_element(%a: complex<tensor<1xf32>>) {
  return
}
// -----
func.func @map() {
  "foo"() {map = affine_map<(d0) -> (d1)>} : () -> ()
  return
}
// -----
func.func @map_twice() {
  "foo"() {map = affine_map<(d0, d0) -> (d0)>} : () -> ()
  return
}
// -----
func.func @location() {
  "foo"() : () -> () loc(
  return
}
// -----
func.func @location_kind() {
  "foo"() : () -> () loc(foo)
  return
}
// -----
func.func @visibility foo() {
  return
}
// -----
func.func @named_and_unnamed(%a: i32, i32) {
  return
}
// -----
func.func @unnamed_and_named(i32, %a: i32) {
  return
}
// -----
func.func @results() -> (i32, {
  return
}
// -----
func.func @arrow() -> {
  return
}
// -----
func.func @properties() {
  "arith.constant"() <{value = 1 : i32> : () -> i32
  return
}
// -----
func.func @unknown_property() {
  %0 = "arith.constant"() <{value = 1 : i32, foo = 2 : i32}> : () -> i32
  return
}
// -----
func.func @array() {
  "foo"() {a = array<i32: 1, 2.5>} : () -> ()
  return
}
// -----
func.func @array_type() {
  "foo"() {a = array<tensor<1xi32>: 1>} : () -> ()
  return
}
// -----
func.func @list() {
  "foo"() {a = [1, 2} : () -> ()
  return
}
// -----
func.func @symbol() {
  call @ () : () -> ()
  return
}
// -----
func.func @nested_alias() {
  #a = 1
  return
}
// -----
func.func @top() {
  return
}
}
// -----
)
// -----
func.func @operand_no_percent(%a: i32) {
  "foo"(a) : (i32) -> ()
  return
}
// -----
func.func @operand_comma(%a: i32) {
  "foo"(%a %a) : (i32, i32) -> ()
  return
}
// -----
func.func @unknown_character() {
  $
  return
}
// -----
func.func @mixed() {
  "foo"() ({
    %0 = arith.constant 1 i32
  }) : () -> ()
  return
}
// -----
func.func @successor_list() {
  "foo"()[^bb1 : () -> ()
^bb1:
  return
}
// -----
func.func @unregistered_in_known_dialect() {
  "arith.foo"() : () -> ()
  return
}
// -----
func.func @custom_unregistered_in_known_dialect() {
  arith.foo
  return
}
// -----
func.func @func_attribute() attributes {sym_name = "x"} {
  return
}
// -----
module @a @b {}
// -----
module {
  func.func @f() {
    return
  }
