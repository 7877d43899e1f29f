// RUN: qopt-opt %s -p canonicalize --remarks --verify-diagnostics --verify-numerics=4 | filecheck %s
// RUN: qopt-opt %s -p canonicalize -o %t
// RUN: qopt-opt %t -p canonicalize --remarks 2>&1 | filecheck %s --check-prefix=AGAIN
// AGAIN-NOT: fired

// Equal movements above an elementwise op become one below it.

!q = tensor<2x3x4x!quant.uniform<i8:f32, 0.5>>
!p = tensor<3x2x4x!quant.uniform<i8:f32, 0.5>>
!r = tensor<3x2x4x!quant.uniform<i8:f32, 1.0>>
!x = tensor<2x3x4xf32>
!y = tensor<3x2x4xf32>

// CHECK-LABEL: func.func @transposes(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add %arg0, %arg1 : {{.*}} -> tensor<2x3x4x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.transpose [[V0]] perm [1, 0, 2]
// CHECK-NEXT: return [[V1]]
func.func @transposes(%x: !q, %z: !q) -> !r {
  %a = nn.transpose %x perm [1, 0, 2] : (!q) -> !p
  %b = nn.transpose %z perm [1, 0, 2] : (!q) -> !p
  // expected-remark@+1 {{sink-movements fired, exact}}
  %r = nn.add %a, %b : (!p, !p) -> !r
  return %r : !r
}

// CHECK-LABEL: func.func @per_axis(
// CHECK-NEXT: nn.mul {{.*}} -> tensor<2x3x4x!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00,4.000000e+00}>>
// CHECK-NEXT: nn.transpose {{.*}} perm [1, 0, 2] : {{.*}} -> tensor<3x2x4x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00,4.000000e+00}>>
// CHECK-NEXT: return
func.func @per_axis(%x: tensor<2x3x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>, %z: !q) -> tensor<3x2x4x!quant.uniform<i8:f32:0, {1.0, 2.0, 4.0}>> {
  %a = nn.transpose %x perm [1, 0, 2] : (tensor<2x3x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<3x2x4x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
  %b = nn.transpose %z perm [1, 0, 2] : (!q) -> !p
  // expected-remark@+1 {{sink-movements fired, exact}}
  %r = nn.mul %a, %b : (tensor<3x2x4x!quant.uniform<i8:f32:1, {0.5, 0.25}>>, !p) -> tensor<3x2x4x!quant.uniform<i8:f32:0, {1.0, 2.0, 4.0}>>
  return %r : tensor<3x2x4x!quant.uniform<i8:f32:0, {1.0, 2.0, 4.0}>>
}

// A reshape that would mix the channels of the result.

// CHECK-LABEL: func.func @per_axis_lost(
// CHECK-COUNT-2: nn.reshape
// CHECK-NEXT: nn.add
func.func @per_axis_lost(%x: tensor<3x4x!quant.uniform<i8:f32, 0.5>>, %z: tensor<3x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x6x!quant.uniform<i8:f32:1, {1.0, 2.0, 1.0, 2.0, 1.0, 4.0}>> {
  %a = nn.reshape %x : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x6x!quant.uniform<i8:f32, 0.5>>
  %b = nn.reshape %z : (tensor<3x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x6x!quant.uniform<i8:f32, 0.5>>
  // expected-remark@+1 {{sink-movements refused [}}
  %r = nn.add %a, %b : (tensor<2x6x!quant.uniform<i8:f32, 0.5>>, tensor<2x6x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x6x!quant.uniform<i8:f32:1, {1.0, 2.0, 1.0, 2.0, 1.0, 4.0}>>
  return %r : tensor<2x6x!quant.uniform<i8:f32:1, {1.0, 2.0, 1.0, 2.0, 1.0, 4.0}>>
}

// An op of tied ports.

// CHECK-LABEL: func.func @tied_channels(
// CHECK-NEXT: nn.maximum {{.*}} -> tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT: nn.flip
// CHECK-NEXT: return
func.func @tied_channels(%x: tensor<2x3x!quant.uniform<i8:f32:0, {0.5, 0.25}>>, %z: tensor<2x3x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<2x3x!quant.uniform<i8:f32:0, {0.25, 0.5}>> {
  %a = nn.flip %x axes [0] : (tensor<2x3x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<2x3x!quant.uniform<i8:f32:0, {0.25, 0.5}>>
  %b = nn.flip %z axes [-2] : (tensor<2x3x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<2x3x!quant.uniform<i8:f32:0, {0.25, 0.5}>>
  // expected-remark@+1 {{sink-movements fired, exact}}
  %r = nn.maximum %a, %b : (tensor<2x3x!quant.uniform<i8:f32:0, {0.25, 0.5}>>, tensor<2x3x!quant.uniform<i8:f32:0, {0.25, 0.5}>>) -> tensor<2x3x!quant.uniform<i8:f32:0, {0.25, 0.5}>>
  return %r : tensor<2x3x!quant.uniform<i8:f32:0, {0.25, 0.5}>>
}

// Ops and constants between: a vector, one number, as many numbers as are moved.

// CHECK-LABEL: func.func @constants(
// CHECK-DAG: nn.constant dense<{{\[\[\[}}1.000000e+00], [2.000000e+00], [3.000000e+00]]]> : tensor<1x3x1xf32>
// CHECK-DAG: nn.constant dense<2.000000e+00> : tensor<f32>
// CHECK: nn.mul
// CHECK: nn.sub
// CHECK-NEXT: nn.sigmoid
// CHECK-NEXT: nn.add
// CHECK-NEXT: [[R:%[a-z0-9_]+]] = nn.transpose {{.*}} perm [1, 0, 2]
// CHECK-NEXT: return [[R]]
func.func @constants(%x: !x, %z: !x) -> !y {
  %c = nn.constant dense<[[[1.0]], [[2.0]], [[3.0]]]> : tensor<3x1x1xf32> : tensor<3x1x1xf32>
  %k = nn.constant dense<2.0> : tensor<f32> : tensor<f32>
  %a = nn.transpose %x perm [1, 0, 2] : (!x) -> !y
  %b = nn.transpose %z perm [1, 0, 2] : (!x) -> !y
  %0 = nn.mul %a, %c : (!y, tensor<3x1x1xf32>) -> !y
  %1 = nn.sub %k, %b : (tensor<f32>, !y) -> !y
  %2 = nn.sigmoid %1 : (!y) -> !y
  // expected-remark@+1 {{sink-movements fired, exact}}
  %r = nn.add %0, %2 : (!y, !y) -> !y
  return %r : !y
}

// CHECK-LABEL: func.func @reshape_and_flatten(
// CHECK: nn.constant dense<{{\[\[\[}}1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]]> : tensor<1x2x2xf32>
// CHECK-NEXT: nn.mul
// CHECK-NEXT: nn.add
// CHECK-NEXT: nn.{{reshape|flatten}}
// CHECK-NEXT: return
func.func @reshape_and_flatten(%x: tensor<1x2x2xf32>, %z: tensor<1x2x2xf32>) -> tensor<1x4xf32> {
  %c = nn.constant dense<[[1.0, 2.0, 3.0, 4.0]]> : tensor<1x4xf32> : tensor<1x4xf32>
  %a = nn.reshape %x : (tensor<1x2x2xf32>) -> tensor<1x4xf32>
  %b = nn.flatten %z axis 1 : (tensor<1x2x2xf32>) -> tensor<1x4xf32>
  %0 = nn.mul %b, %c : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  // expected-remark@+1 {{sink-movements fired, exact}}
  %r = nn.add %a, %0 : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  return %r : tensor<1x4xf32>
}

// CHECK-LABEL: func.func @gathers(
// CHECK: nn.add {{.*}} -> tensor<2x3xf32>
// CHECK-NEXT: nn.gather {{.*}} : {{.*}} -> tensor<3x3xf32>
// CHECK-NEXT: return
func.func @gathers(%x: tensor<2x3xf32>, %z: tensor<2x3xf32>) -> tensor<3x3xf32> {
  %i = nn.constant dense<[1, 0, 1]> : tensor<3xi64> : tensor<3xi64>
  %j = nn.constant dense<[1, 0, 1]> : tensor<3xi64> : tensor<3xi64>
  %a = nn.gather %x, %i axis 0 : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<3x3xf32>
  %b = nn.gather %z, %j axis 0 : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<3x3xf32>
  // expected-remark@+1 {{sink-movements fired, exact}}
  %r = nn.add %a, %b : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return %r : tensor<3x3xf32>
}

// CHECK-LABEL: func.func @reversed_slices(
// CHECK-NEXT: nn.add
// CHECK-NEXT: nn.slice
// CHECK-NEXT: return
func.func @reversed_slices(%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.slice %x starts [3] stops [-9] steps [-1] : (tensor<4xf32>) -> tensor<4xf32>
  %b = nn.slice %z starts [3] stops [-9] steps [-1] : (tensor<4xf32>) -> tensor<4xf32>
  // expected-remark@+1 {{sink-movements fired, exact}}
  %r = nn.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL: func.func @compare_and_choose(
// CHECK-NEXT: nn.compare
// CHECK-NEXT: nn.select
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: return
func.func @compare_and_choose(%x: !x, %z: !x) -> !y {
  %a = nn.transpose %x perm [1, 0, 2] : (!x) -> !y
  %b = nn.transpose %z perm [1, 0, 2] : (!x) -> !y
  %c = nn.compare %a, %b mode "lt" : (!y, !y) -> tensor<3x2x4xi1>
  // expected-remark@+1 {{sink-movements fired, exact}}
  %r = nn.select %c, %a, %b : (tensor<3x2x4xi1>, !y, !y) -> !y
  return %r : !y
}

// Extents that are not known: transposes let them broadcast, a reshape only where they stay.

// CHECK-LABEL: func.func @dynamic(
// CHECK-NEXT: nn.add {{.*}} -> tensor<?x4x?xf32>
// CHECK-NEXT: nn.transpose {{.*}} -> tensor<?x?x4xf32>
func.func @dynamic(%x: tensor<?x4x?xf32>, %z: tensor<?x1x?xf32>) -> tensor<?x?x4xf32> {
  %a = nn.transpose %x perm [2, 0, 1] : (tensor<?x4x?xf32>) -> tensor<?x?x4xf32>
  %b = nn.transpose %z perm [2, 0, 1] : (tensor<?x1x?xf32>) -> tensor<?x?x1xf32>
  // expected-remark@+1 {{sink-movements fired, exact}}
  %r = nn.add %a, %b : (tensor<?x?x4xf32>, tensor<?x?x1xf32>) -> tensor<?x?x4xf32>
  return %r : tensor<?x?x4xf32>
}

// CHECK-LABEL: func.func @dynamic_batch(
// CHECK-NEXT: nn.add {{.*}} -> tensor<?x2x2xf32>
// CHECK-NEXT: nn.reshape {{.*}} -> tensor<?x4xf32>
func.func @dynamic_batch(%x: tensor<?x2x2xf32>, %z: tensor<?x2x2xf32>) -> tensor<?x4xf32> {
  %a = nn.reshape %x : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  %b = nn.reshape %z : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  // expected-remark@+1 {{sink-movements fired, exact}}
  %r = nn.add %a, %b : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}

// CHECK-LABEL: func.func @dynamic_merged(
// CHECK-COUNT-2: nn.reshape
func.func @dynamic_merged(%x: tensor<?x4xf32>, %z: tensor<?x4xf32>) -> tensor<4x?xf32> {
  %a = nn.reshape %x : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %b = nn.reshape %z : (tensor<?x4xf32>) -> tensor<4x?xf32>
  // expected-remark@+1 {{sink-movements refused [dynamic]: extents that are not known may broadcast}}
  %r = nn.add %a, %b : (tensor<4x?xf32>, tensor<4x?xf32>) -> tensor<4x?xf32>
  return %r : tensor<4x?xf32>
}

// -- refused ----------------------------------------------------------------------------

// CHECK-LABEL: func.func @other_permutation(
// CHECK-COUNT-2: nn.transpose
func.func @other_permutation(%x: tensor<2x2x4xf32>, %z: tensor<2x2x4xf32>) -> tensor<4x2x2xf32> {
  %a = nn.transpose %x perm [2, 0, 1] : (tensor<2x2x4xf32>) -> tensor<4x2x2xf32>
  %b = nn.transpose %z perm [2, 1, 0] : (tensor<2x2x4xf32>) -> tensor<4x2x2xf32>
  // expected-remark@+1 {{sink-movements refused [movements]: the operands are not moved alike}}
  %r = nn.add %a, %b : (tensor<4x2x2xf32>, tensor<4x2x2xf32>) -> tensor<4x2x2xf32>
  return %r : tensor<4x2x2xf32>
}

// CHECK-LABEL: func.func @used_elsewhere(
// CHECK-COUNT-2: nn.transpose
func.func @used_elsewhere(%x: !x, %z: !x) -> (!y, !y) {
  %a = nn.transpose %x perm [1, 0, 2] : (!x) -> !y
  %b = nn.transpose %z perm [1, 0, 2] : (!x) -> !y
  // expected-remark@+1 {{sink-movements refused [multi-use]: the result of 'nn.transpose' is also used elsewhere}}
  %r = nn.add %a, %b : (!y, !y) -> !y
  return %r, %b : !y, !y
}

// CHECK-LABEL: func.func @part_of_a_tensor(
// CHECK-COUNT-2: nn.slice
func.func @part_of_a_tensor(%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<2xf32> {
  %a = nn.slice %x starts [0] stops [2] steps [1] : (tensor<4xf32>) -> tensor<2xf32>
  %b = nn.slice %z starts [0] stops [2] steps [1] : (tensor<4xf32>) -> tensor<2xf32>
  // expected-remark@+1 {{sink-movements refused [growth]: 4 elements would be computed in place of 2}}
  %r = nn.add %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// CHECK-LABEL: func.func @padded(
// CHECK-COUNT-2: nn.pad
func.func @padded(%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<5xf32> {
  %a = nn.pad %x low [0] high [1] value 1.0 : (tensor<4xf32>) -> tensor<5xf32>
  %b = nn.pad %z low [0] high [1] value 1.0 : (tensor<4xf32>) -> tensor<5xf32>
  // expected-remark@+1 {{sink-movements refused [border]: 'nn.pad' adds elements that nobody computed}}
  %r = nn.add %a, %b : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}

// CHECK-LABEL: func.func @broadcast_after_reshape(
// CHECK-COUNT-2: nn.reshape
func.func @broadcast_after_reshape(%x: tensor<4xf32>, %z: tensor<2xf32>) -> tensor<2x2xf32> {
  %a = nn.reshape %x : (tensor<4xf32>) -> tensor<2x2xf32>
  %b = nn.reshape %z : (tensor<2xf32>) -> tensor<1x2xf32>
  // expected-remark@+1 {{sink-movements refused [movements]}}
  %r = nn.add %a, %b : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}

// CHECK-LABEL: func.func @constant_of_copies(
// CHECK-COUNT-2: nn.tile
func.func @constant_of_copies(%x: tensor<2xf32>, %z: tensor<2xf32>) -> tensor<4xf32> {
  %c = nn.constant dense<[1.0, 2.0, 1.0, 3.0]> : tensor<4xf32> : tensor<4xf32>
  %a = nn.tile %x repeats [2] : (tensor<2xf32>) -> tensor<4xf32>
  %b = nn.tile %z repeats [2] : (tensor<2xf32>) -> tensor<4xf32>
  %0 = nn.mul %b, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // expected-remark@+1 {{sink-movements refused [constant]: a constant differs where copies of one element are}}
  %r = nn.add %a, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
