// RUN: qopt-opt %s -p sink-rescale --verify-numerics=4 | filecheck %s
// RUN: qopt-opt %s -p sink-rescale -o %t && qopt-opt %t -p sink-rescale --remarks 2>&1 | filecheck %s --check-prefix=AGAIN
// AGAIN-NOT: fired

// A rescale whose result one op is left to read, twice, moves below that op as well.

!a = !quant.uniform<u8:f32, 0.5:160>
!b = !quant.uniform<i8:f32, 0.25:-3>
!c = !quant.uniform<u8:f32, 0.375:178>

// CHECK-LABEL: func.func @read_twice(
// CHECK-DAG: nn.maximum %arg0, %arg0
// CHECK-DAG: nn.relu %arg0
// CHECK: return
func.func @read_twice(%x: tensor<2x3x!a>) -> (tensor<2x3x!b>, tensor<2x3x!c>) {
  %0 = quant.rescale %x : tensor<2x3x!a> to tensor<2x3x!b>
  %1 = nn.maximum %0, %0 : (tensor<2x3x!b>, tensor<2x3x!b>) -> tensor<2x3x!b>
  %2 = quant.rescale %0 : tensor<2x3x!b> to tensor<2x3x!c>
  %3 = nn.relu %2 : (tensor<2x3x!c>) -> tensor<2x3x!c>
  return %1, %3 : tensor<2x3x!b>, tensor<2x3x!c>
}

// Two ops are left, and both let a rescale pass.

// CHECK-LABEL: func.func @read_by_two(
// CHECK-DAG: nn.maximum %arg0, %arg0
// CHECK-DAG: nn.flip %arg0
// CHECK-DAG: nn.relu %arg0
// CHECK: return
func.func @read_by_two(%x: tensor<2x3x!a>) -> (tensor<2x3x!b>, tensor<2x3x!b>, tensor<2x3x!c>) {
  %0 = quant.rescale %x : tensor<2x3x!a> to tensor<2x3x!b>
  %1 = nn.maximum %0, %0 : (tensor<2x3x!b>, tensor<2x3x!b>) -> tensor<2x3x!b>
  %4 = nn.flip %0 axes [0] : (tensor<2x3x!b>) -> tensor<2x3x!b>
  %2 = quant.rescale %0 : tensor<2x3x!b> to tensor<2x3x!c>
  %3 = nn.relu %2 : (tensor<2x3x!c>) -> tensor<2x3x!c>
  return %1, %4, %3 : tensor<2x3x!b>, tensor<2x3x!b>, tensor<2x3x!c>
}
