// RUN: qopt-opt %s --split-input-file -p place-rescales --verify-numerics=8 | filecheck %s
// RUN: qopt-opt %s --split-input-file -p place-rescales --remarks -o %t 2>&1 | filecheck %s --check-prefix=COST

// Parameters along a dimension pass what picks some of them: whatever `sink-rescale` reaches is a
// state of the problem, and its bound is one.

!a = !quant.uniform<i8:f32:0, {0.75:-3, 0.125:-1, 0.375:1, 1.0:1}>
!b = !quant.uniform<u8:f32, 0.25:45>

// COST: cost 36 -> 9 elements x price, lower bound 9
// CHECK-LABEL: func.func @slice(
// CHECK-NEXT: nn.slice {{.*}} -> tensor<1x9x!quant.uniform<i8:f32, 7.500000e-01:-3>>
// CHECK-NEXT: quant.rescale
func.func @slice(%x: tensor<4x9x!a>) -> tensor<1x9x!b> {
  %0 = quant.rescale %x : tensor<4x9x!a> to tensor<4x9x!b>
  %1 = nn.slice %0 starts [0, 0] stops [1, 9] steps [1, 1] : (tensor<4x9x!b>) -> tensor<1x9x!b>
  return %1 : tensor<1x9x!b>
}

// -----

!a = !quant.uniform<i8:f32:0, {0.75:-3, 0.125:-1, 0.375:1, 1.0:1}>
!b = !quant.uniform<u8:f32, 0.25:45>

// COST: cost 36 -> 18 elements x price, lower bound 18
// CHECK-LABEL: func.func @reversed(
// CHECK-NEXT: nn.slice {{.*}} -> tensor<2x9x!quant.uniform<i8:f32:0, {1.000000e+00:1,1.250000e-01:-1}>>
// CHECK-NEXT: quant.rescale
func.func @reversed(%x: tensor<4x9x!a>) -> tensor<2x9x!b> {
  %0 = quant.rescale %x : tensor<4x9x!a> to tensor<4x9x!b>
  %1 = nn.slice %0 starts [3, 0] stops [0, 9] steps [-2, 1] : (tensor<4x9x!b>) -> tensor<2x9x!b>
  return %1 : tensor<2x9x!b>
}

// -----

!a = !quant.uniform<i8:f32:0, {0.75:-3, 0.125:-1, 0.375:1, 1.0:1}>
!b = !quant.uniform<u8:f32, 0.25:45>

// COST: cost 36 -> 18 elements x price, lower bound 18
// CHECK-LABEL: func.func @gather(
// CHECK: nn.gather {{.*}} -> tensor<2x9x!quant.uniform<i8:f32:0, {1.000000e+00:1,7.500000e-01:-3}>>
// CHECK-NEXT: quant.rescale
func.func @gather(%x: tensor<4x9x!a>) -> tensor<2x9x!b> {
  %i = nn.constant dense<[3, 0]> : tensor<2xi64> : tensor<2xi64>
  %0 = quant.rescale %x : tensor<4x9x!a> to tensor<4x9x!b>
  %1 = nn.gather %0, %i axis 0 : (tensor<4x9x!b>, tensor<2xi64>) -> tensor<2x9x!b>
  return %1 : tensor<2x9x!b>
}

// -----

// Parameters in blocks, one of which is left.

!a = !quant.uniform<i8:f32:{0:1, 1:2}, {{0.75:-3, 0.5}, {0.125:-1, 0.25}}>
!b = !quant.uniform<u8:f32, 0.25:45>

// COST: cost 8 -> 2 elements x price, lower bound 2
// CHECK-LABEL: func.func @blocks(
// CHECK-NEXT: nn.slice
// CHECK-NEXT: quant.rescale
func.func @blocks(%x: tensor<2x4x!a>) -> tensor<1x2x!b> {
  %0 = quant.rescale %x : tensor<2x4x!a> to tensor<2x4x!b>
  %1 = nn.slice %0 starts [0, 2] stops [1, 4] steps [1, 1] : (tensor<2x4x!b>) -> tensor<1x2x!b>
  return %1 : tensor<1x2x!b>
}

// -----

// A comparison reads codes above a rescale that makes no two of them one.

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i16:f32, 0.25>

// COST: cost 8 -> 0 elements x price, lower bound 0
// CHECK-LABEL: func.func @compared(
// CHECK-NEXT: nn.flip {{.*}}i8
// CHECK-NEXT: nn.arg_max {{.*}}i8
// CHECK-NEXT: return
func.func @compared(%x: tensor<2x4x!a>) -> tensor<2x1xi64> {
  %0 = quant.rescale %x : tensor<2x4x!a> to tensor<2x4x!b>
  %1 = nn.flip %0 axes [0] : (tensor<2x4x!b>) -> tensor<2x4x!b>
  %2 = nn.arg_max %1 axis 1 : (tensor<2x4x!b>) -> tensor<2x1xi64>
  return %2 : tensor<2x1xi64>
}

// -----

// A constant that is rescaled is computed, although another use makes floats of it.

!a = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<2x4x!quant.uniform<i8:f32, 0.75>>

// COST: cost 8 -> 8 elements x price, lower bound 8
// CHECK-LABEL: func.func @constant(
// CHECK-NOT: quant.rescale
func.func @constant() -> (!b, tensor<2x4xf32>) {
  %c = nn.constant dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4xi8> : !a
  %0 = quant.rescale %c : !a to !b
  %1 = quant.dcast %c : !a to tensor<2x4xf32>
  return %0, %1 : !b, tensor<2x4xf32>
}
