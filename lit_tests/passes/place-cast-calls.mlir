// RUN: qopt-opt %s -p place-rescales --split-input-file | filecheck %s
// RUN: qopt-opt %s -p 'place-rescales{boundary=maximize-integer}' --split-input-file | filecheck %s --check-prefix=INTEGER
// RUN: qopt-opt %s -p 'place-rescales{boundary=preserve}' --split-input-file | filecheck %s --check-prefix=PRESERVE

// Conversions cross calls: what a private function takes and gives follows its calls.

!q = tensor<8x4x!quant.uniform<i8:f32, 0.5:3>>
!qs = tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>
!f = tensor<8x4xf32>
!fs = tensor<1x4xf32>

// Through two functions, from both calls.
// CHECK-LABEL: func.func @two_calls(
// CHECK-NEXT: [[A:%[a-z0-9_]+]] = call @outer(%arg0) : (tensor<8x4x!quant{{.*}}) -> tensor<1x4x!quant
// CHECK-NEXT: [[B:%[a-z0-9_]+]] = call @outer(%arg1)
// CHECK-NEXT: [[C:%[a-z0-9_]+]] = quant.dcast [[B]]
// CHECK-NEXT: return [[A]], [[C]]
// CHECK-LABEL: func.func private @outer(
// CHECK-SAME: tensor<8x4x!quant{{.*}} -> tensor<1x4x!quant
// CHECK-LABEL: func.func private @inner(
// CHECK-SAME: tensor<8x4x!quant{{.*}} -> tensor<8x4x!quant
func.func @two_calls(%x: !q, %y: !q) -> (!qs, !fs) {
  %0 = quant.dcast %x : !q to !f
  %1 = func.call @outer(%0) : (!f) -> !fs
  %2 = quant.qcast %1 : !fs to !qs
  %3 = quant.dcast %y : !q to !f
  %4 = func.call @outer(%3) : (!f) -> !fs
  return %2, %4 : !qs, !fs
}
func.func private @outer(%a: !f) -> !fs {
  %0 = func.call @inner(%a) : (!f) -> !f
  %1 = nn.slice %0 starts [0, 0] stops [1, 4] steps [1, 1] : (!f) -> !fs
  return %1 : !fs
}
func.func private @inner(%a: !f) -> !f {
  %1 = nn.flip %a axes [0] : (!f) -> !f
  return %1 : !f
}

// -----

// One call gives floats that are no codes: the function stays, and so do the others.

!q = tensor<8x4x!quant.uniform<i8:f32, 0.5:3>>
!f = tensor<8x4xf32>

// CHECK-LABEL: func.func @unlike(
// CHECK-NEXT: quant.dcast
// CHECK-LABEL: func.func private @flip(
// CHECK-SAME: tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @unlike(%x: !q, %y: !f) -> (!f, !f) {
  %0 = quant.dcast %x : !q to !f
  %1 = func.call @flip(%0) : (!f) -> !f
  %2 = func.call @flip(%y) : (!f) -> !f
  return %1, %2 : !f, !f
}
func.func private @flip(%a: !f) -> !f {
  %1 = nn.flip %a axes [0] : (!f) -> !f
  return %1 : !f
}

// -----

// The interface of a public function is its callers' business, unless integers count more.

!q = tensor<8x4x!quant.uniform<i8:f32, 0.5:3>>
!f = tensor<8x4xf32>

// CHECK-LABEL: func.func @calls_public(
// CHECK-NEXT: quant.dcast
// CHECK-LABEL: func.func @public(
// CHECK-SAME: tensor<8x4xf32>) -> tensor<8x4xf32>
// INTEGER: func.func @public(
// INTEGER-SAME: tensor<8x4x!quant{{.*}} -> tensor<8x4x!quant
// PRESERVE: func.func @public(
// PRESERVE-SAME: tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @calls_public(%x: !q) -> !q {
  %0 = quant.dcast %x : !q to !f
  %1 = func.call @public(%0) : (!f) -> !f
  %2 = quant.qcast %1 : !f to !q
  return %2 : !q
}
func.func @public(%a: !f) -> !f {
  %1 = nn.flip %a axes [0] : (!f) -> !f
  return %1 : !f
}

// -----

// A function that calls itself stays.

!q = tensor<8x4x!quant.uniform<i8:f32, 0.5:3>>
!f = tensor<8x4xf32>

// CHECK-LABEL: func.func @starts(
// CHECK-NEXT: quant.dcast
// CHECK-LABEL: func.func private @itself(
// CHECK-SAME: tensor<8x4xf32>) -> tensor<8x4xf32>
func.func @starts(%x: !q) -> !q {
  %0 = quant.dcast %x : !q to !f
  %1 = func.call @itself(%0) : (!f) -> !f
  %2 = quant.qcast %1 : !f to !q
  return %2 : !q
}
func.func private @itself(%a: !f) -> !f {
  %1 = func.call @itself(%a) : (!f) -> !f
  return %1 : !f
}
