// RUN: qopt-opt %s --split-input-file -p place-rescales --verify-numerics=4 | filecheck %s
// RUN: qopt-opt %s --split-input-file -p place-rescales --remarks -o %t 2>&1 | filecheck %s --check-prefix=COST

// A conversion is priced by how often it runs: a body that is called four times would rescale 256
// elements in place of 128.

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25:-5>

// COST: cost 128 -> 128 elements x price, lower bound 128
// CHECK-LABEL: func.func private @g(
// CHECK-NEXT: nn.slice
// CHECK-NEXT: return
// CHECK-LABEL: func.func @f(
// CHECK-NEXT: quant.rescale
// CHECK-COUNT-4: call @g
func.func private @g(%a: tensor<2x64x!b>) -> tensor<1x64x!b> {
  %0 = nn.slice %a starts [0, 0] stops [1, 64] steps [1, 1] : (tensor<2x64x!b>) -> tensor<1x64x!b>
  return %0 : tensor<1x64x!b>
}
func.func @f(%x: tensor<2x64x!a>) -> (tensor<1x64x!b>, tensor<1x64x!b>, tensor<1x64x!b>, tensor<1x64x!b>) {
  %0 = quant.rescale %x : tensor<2x64x!a> to tensor<2x64x!b>
  %1 = func.call @g(%0) : (tensor<2x64x!b>) -> tensor<1x64x!b>
  %2 = func.call @g(%0) : (tensor<2x64x!b>) -> tensor<1x64x!b>
  %3 = func.call @g(%0) : (tensor<2x64x!b>) -> tensor<1x64x!b>
  %4 = func.call @g(%0) : (tensor<2x64x!b>) -> tensor<1x64x!b>
  return %1, %2, %3, %4 : tensor<1x64x!b>, tensor<1x64x!b>, tensor<1x64x!b>, tensor<1x64x!b>
}

// -----

// A rescale of a body that is called three times, of one value: once in front of the calls.

!a = tensor<2x64x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<2x64x!quant.uniform<i8:f32, 0.25:-5>>

// COST: cost 384 -> 128 elements x price, lower bound 128
// CHECK-LABEL: func.func @moved_out(
// CHECK-NEXT: quant.rescale
// CHECK-COUNT-3: call @body
// CHECK-LABEL: func.func private @body(
// CHECK-NOT: quant.rescale
func.func @moved_out(%x: !a) -> (!b, !b, !b) {
  %1 = func.call @body(%x) : (!a) -> !b
  %2 = func.call @body(%x) : (!a) -> !b
  %3 = func.call @body(%x) : (!a) -> !b
  return %1, %2, %3 : !b, !b, !b
}
func.func private @body(%a: !a) -> !b {
  %0 = quant.rescale %a : !a to !b
  %1 = nn.flip %0 axes [0] : (!b) -> !b
  return %1 : !b
}

// -----

// Two calls in each of two functions are four: 4 x 32 elements are as many as 128, and stay outside.
// Of one call fewer, 96 are less.

!a = tensor<4x32x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x32x!quant.uniform<i8:f32, 0.25:-5>>
!s = tensor<1x32x!quant.uniform<i8:f32, 0.25:-5>>

// COST: cost 128 -> 96 elements x price, lower bound 96
// CHECK-LABEL: func.func @nested(
// CHECK-NEXT: call @outer
// CHECK-LABEL: func.func private @inner(
// CHECK-NEXT: nn.slice
// CHECK-NEXT: quant.rescale
func.func @nested(%x: !a) -> (!s, !s, !s) {
  %0 = quant.rescale %x : !a to !b
  %1, %2 = func.call @outer(%0) : (!b) -> (!s, !s)
  %3 = func.call @inner(%0) : (!b) -> !s
  return %1, %2, %3 : !s, !s, !s
}
func.func private @outer(%a: !b) -> (!s, !s) {
  %0 = func.call @inner(%a) : (!b) -> !s
  %1 = func.call @inner(%a) : (!b) -> !s
  return %0, %1 : !s, !s
}
func.func private @inner(%a: !b) -> !s {
  %0 = nn.slice %a starts [0, 0] stops [1, 32] steps [1, 1] : (!b) -> !s
  return %0 : !s
}

// -----

!a = tensor<4x32x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x32x!quant.uniform<i8:f32, 0.25:-5>>
!s = tensor<1x32x!quant.uniform<i8:f32, 0.25:-5>>

// COST: cost 128 -> 128 elements x price, lower bound 128
// CHECK-LABEL: func.func @nested_twice(
// CHECK-NEXT: quant.rescale
func.func @nested_twice(%x: !a) -> (!s, !s, !s, !s) {
  %0 = quant.rescale %x : !a to !b
  %1, %2 = func.call @outer(%0) : (!b) -> (!s, !s)
  %3, %4 = func.call @outer(%0) : (!b) -> (!s, !s)
  return %1, %2, %3, %4 : !s, !s, !s, !s
}
func.func private @outer(%a: !b) -> (!s, !s) {
  %0 = func.call @inner(%a) : (!b) -> !s
  %1 = func.call @inner(%a) : (!b) -> !s
  return %0, %1 : !s, !s
}
func.func private @inner(%a: !b) -> !s {
  %0 = nn.slice %a starts [0, 0] stops [1, 32] steps [1, 1] : (!b) -> !s
  return %0 : !s
}

// -----

// Functions that call each other run an unknown number of times, and so does what they call.

!a = tensor<4x32x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x32x!quant.uniform<i8:f32, 0.25:-5>>
!s = tensor<1x32x!quant.uniform<i8:f32, 0.25:-5>>

// COST: cost 128 -> 128 elements x price, lower bound 128
// CHECK-LABEL: func.func @recursive(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: call @even
// CHECK-LABEL: func.func private @even(
// CHECK-NOT: quant.rescale
func.func @recursive(%x: !a) -> !s {
  %0 = quant.rescale %x : !a to !b
  %1 = func.call @even(%0) : (!b) -> !s
  return %1 : !s
}
func.func private @even(%a: !b) -> !s {
  %0 = func.call @odd(%a) : (!b) -> !s
  %1 = func.call @leaf(%a) : (!b) -> !s
  %2 = nn.maximum %0, %1 : (!s, !s) -> !s
  return %2 : !s
}
func.func private @odd(%a: !b) -> !s {
  %0 = func.call @even(%a) : (!b) -> !s
  return %0 : !s
}
func.func private @leaf(%a: !b) -> !s {
  %0 = nn.slice %a starts [0, 0] stops [1, 32] steps [1, 1] : (!b) -> !s
  return %0 : !s
}
