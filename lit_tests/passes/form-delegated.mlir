// RUN: qopt-opt %s -p form-delegated,dce --remarks=%t | filecheck %s
// RUN: filecheck %s --check-prefix=WHY --input-file=%t
// RUN: qopt-opt %s -p 'form-delegated{numerics=bounded},dce' | filecheck %s --check-prefix=NEAR

!x = tensor<4x!quant.uniform<i8:f32, 0.0876861065626144409:-25>>
!y = tensor<4x!quant.uniform<i8:f32, 0.0876861065626144409:-63>>
!z = tensor<4x!quant.uniform<i8:f32, 0.05:-63>>
!w = tensor<4x!quant.uniform<i8:f32, 0.0438430532813072205:-100>>
!f = tensor<4xf32>
!axis = tensor<4x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.5, 0.25}>>

module attributes {quant.arithmetic = "expressed", tflite.kernels = "litert-xnn"} {

// CHECK-LABEL: @same_codes
// CHECK-NEXT: [[Y:%[0-9]+]] = nn.leaky_relu %arg0 alpha 0.20000000298023224 {nn.kernel = "litert-xnn", nn.key = "y"}
// CHECK-NEXT: return [[Y]]
func.func @same_codes(%x: !x) -> !y {
  %0 = quant.dcast %x {nn.kernel = "litert-xnn"} : !x to !f
  %1 = nn.leaky_relu %0 alpha 0.20000000298023224 : (!f) -> !f
  %2 = quant.qcast %1 {nn.kernel = "litert-xnn", nn.key = "y"} : !f to !y
  return %2 : !y
}

// Multipliers of 8 bits: codes differ.
// CHECK-LABEL: @other_codes
// CHECK: quant.dcast
// CHECK: nn.leaky_relu {{.*}} : (tensor<4xf32>) -> tensor<4xf32>
// WHY: "reason": "would be bounded(1) (compared on all codes), but only exact is allowed"
// NEAR-LABEL: @other_codes
// NEAR-NEXT: nn.leaky_relu %arg0 {nn.kernel = "litert-xnn"}
func.func @other_codes(%x: !x) -> !z {
  %0 = quant.dcast %x {nn.kernel = "litert-xnn"} : !x to !f
  %1 = nn.leaky_relu %0 alpha 0.01 : (!f) -> !f
  %2 = quant.qcast %1 {nn.kernel = "litert-xnn"} : !f to !z
  return %2 : !z
}

// A clamp of codes keeps their qparams, and is fused with what makes them.
// CHECK-LABEL: @clamp
// CHECK-NEXT: [[Y:%[0-9]+]] = nn.relu %arg0 : (tensor<4x!quant.uniform
// CHECK-NEXT: return [[Y]]
func.func @clamp(%x: !x) -> !x {
  %0 = quant.dcast %x {nn.kernel = "litert-xnn"} : !x to !f
  %1 = nn.relu %0 : (!f) -> !f
  %2 = quant.qcast %1 {nn.kernel = "litert-xnn"} : !f to !x
  return %2 : !x
}

// CHECK-LABEL: @nothing_between
// CHECK-NEXT: [[Y:%[0-9]+]] = quant.rescale %arg0
// CHECK-NEXT: return [[Y]]
func.func @nothing_between(%x: !x) -> !w {
  %0 = quant.dcast %x {nn.kernel = "litert-xnn"} : !x to !f
  %1 = quant.qcast %0 {nn.kernel = "litert-xnn"} : !f to !w
  return %1 : !w
}

// CHECK-LABEL: @product
// CHECK-NEXT: [[Y:%[0-9]+]] = nn.mul %arg0, %arg1 {nn.kernel = "litert-xnn"}
// CHECK-NEXT: return [[Y]]
func.func @product(%x: !x, %w: !w) -> !z {
  %0 = quant.dcast %x {nn.kernel = "litert-xnn"} : !x to !f
  %1 = quant.dcast %w {nn.kernel = "litert-xnn"} : !w to !f
  %2 = nn.mul %0, %1 : (!f, !f) -> !f
  %3 = quant.qcast %2 {nn.kernel = "litert-xnn"} : !f to !z
  return %3 : !z
}

// What somebody else reads stays.
// CHECK-LABEL: @used_elsewhere
// CHECK: nn.leaky_relu {{.*}} -> tensor<4xf32>
// WHY: "reason": "the float result is also used elsewhere"
func.func @used_elsewhere(%x: !x) -> (!y, !f) {
  %0 = quant.dcast %x {nn.kernel = "litert-xnn"} : !x to !f
  %1 = nn.leaky_relu %0 alpha 0.20000000298023224 : (!f) -> !f
  %2 = quant.qcast %1 {nn.kernel = "litert-xnn"} : !f to !y
  return %2, %1 : !y, !f
}

// CHECK-LABEL: @per_axis
// CHECK: nn.relu {{.*}} -> tensor<4xf32>
// WHY: "reason": "its codes are not of 8 bits and one scale"
func.func @per_axis(%x: !axis) -> !axis {
  %0 = quant.dcast %x {nn.kernel = "litert-xnn"} : !axis to !f
  %1 = nn.relu %0 : (!f) -> !f
  %2 = quant.qcast %1 {nn.kernel = "litert-xnn"} : !f to !axis
  return %2 : !axis
}

// XNNPACK has no HARD_SWISH of codes.
// CHECK-LABEL: @off_the_delegate
// CHECK-NEXT: [[F:%[0-9]+]] = quant.dcast %arg0 {nn.kernel = "litert-xnn"}
// CHECK-NEXT: [[H:%[0-9]+]] = nn.hard_swish [[F]] : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: quant.qcast [[H]] {nn.kernel = "litert-xnn", nn.key = "h"}
func.func @off_the_delegate(%x: tensor<4x!quant.uniform<i8:f32, 0.0484594851732254:44>>) -> tensor<4x!quant.uniform<i8:f32, 0.030274219810962677:-100>> {
  %0 = nn.hard_swish %x {nn.kernel = "litert-opt", nn.key = "h"} : (tensor<4x!quant.uniform<i8:f32, 0.0484594851732254:44>>) -> tensor<4x!quant.uniform<i8:f32, 0.030274219810962677:-100>>
  return %0 : tensor<4x!quant.uniform<i8:f32, 0.030274219810962677:-100>>
}
}
