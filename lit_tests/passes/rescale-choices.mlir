// RUN: qopt-opt %s -p sink-rescale --remarks | filecheck %s
// RUN: qopt-opt %s -p sink-rescale --verify-numerics=2 | filecheck %s
// RUN: qopt-opt %s -p hoist-rescale | filecheck %s --check-prefix=HOIST
// RUN: qopt-opt %s -p canonicalize | filecheck %s --check-prefix=CANON

// Maximum and minimum of two values, and of a value and a constant.

!a = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<1x2x4x4x!quant.uniform<u8:f32, 0.75:128>>
!channels = tensor<1x2x4x4x!quant.uniform<i8:f32:1, {0.5:3, 0.25:1}>>
!wanted = tensor<1x2x4x4x!quant.uniform<i8:f32:1, {1.0, 2.0}>>
!c = tensor<2x1x1x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
!bound = tensor<2x1x1x!quant.uniform<u8:f32, 0.75:128>>
!row_a = tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>
!row_b = tensor<?x4x!quant.uniform<u8:f32, 0.75:128>>

// CHECK-LABEL: func.func @equal_rescales(
// CHECK-NEXT: nn.maximum {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: return
func.func @equal_rescales(%x: !a, %y: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  %1 = quant.rescale %y : !a to !b
  %2 = nn.maximum %0, %1 : (!b, !b) -> !b
  func.return %2 : !b
}

// CHECK-LABEL: func.func @unequal_rescales(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.minimum
// CHECK-NEXT: return
func.func @unequal_rescales(%x: !a, %y: !channels) -> !b {
  %0 = quant.rescale %x : !a to !b
  %1 = quant.rescale %y : !channels to !b
  %2 = nn.minimum %0, %1 : (!b, !b) -> !b
  func.return %2 : !b
}

// Codes 129 and 126 (0.75 and -1.5) are what the rescale makes of 4 and 0.

// CHECK-LABEL: func.func @constant(
// CHECK-NEXT: [[C:%[a-z0-9_]+]] = nn.constant dense<{{\[\[\[4\]\], \[\[0\]\]\]}}> : tensor<2x1x1xi8> : tensor<2x1x1x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: nn.maximum {{.*}}, [[C]] : {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: return
func.func @constant(%x: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  %1 = nn.constant dense<[[[-127]], [[126]]]> : tensor<2x1x1xi8> : !bound
  %2 = nn.maximum %0, %1 : (!b, !bound) -> !b
  func.return %2 : !b
}

// Never chosen: less than everything that is rescaled. Any code as low will do.

// CHECK-LABEL: func.func @constant_below_everything(
// CHECK-NEXT: nn.constant dense<-128>
// CHECK-NEXT: nn.maximum
// CHECK-NEXT: quant.rescale
func.func @constant_below_everything(%x: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  %1 = nn.constant dense<[[[0]], [[7]]]> : tensor<2x1x1xi8> : !bound
  %2 = nn.maximum %0, %1 : (!b, !bound) -> !b
  func.return %2 : !b
}

// Always chosen, and no code is rescaled to it.

// CHECK-LABEL: func.func @constant_that_no_code_becomes(
// CHECK: quant.rescale
// CHECK: nn.maximum
// CHECK-NEXT: return
func.func @constant_that_no_code_becomes(%x: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  %1 = nn.constant dense<[[[-1]], [[-127]]]> : tensor<2x1x1xi8> : !bound
  %2 = nn.maximum %0, %1 : (!b, !bound) -> !b
  func.return %2 : !b
}

// CHECK-LABEL: func.func @per_axis(
// CHECK-NEXT: nn.constant {{.*}} : tensor<2x1x1x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01:1}>>
// CHECK-NEXT: nn.minimum {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01:1}>>
// CHECK-NEXT: quant.rescale
func.func @per_axis(%x: !channels) -> !wanted {
  %0 = quant.rescale %x : !channels to !wanted
  %1 = nn.constant dense<[[[5]], [[-3]]]> : tensor<2x1x1xi8> : !c
  %2 = nn.minimum %0, %1 : (!wanted, !c) -> !wanted
  func.return %2 : !wanted
}

// The other user takes the rescaled value: nothing would be gained.

// CHECK-LABEL: func.func @multi_use(
// CHECK: nn.maximum {{.*}} -> tensor<1x2x4x4x!quant.uniform<u8
// CHECK-NEXT: nn.add
func.func @multi_use(%x: !a) -> (!b, !b) {
  %0 = quant.rescale %x : !a to !b
  %1 = nn.constant dense<[[[-127]], [[126]]]> : tensor<2x1x1xi8> : !bound
  %2 = nn.maximum %0, %1 : (!b, !bound) -> !b
  %3 = nn.add %0, %2 : (!b, !b) -> !b
  func.return %2, %3 : !b, !b
}

// CHECK-LABEL: func.func @dynamic(
// CHECK-NEXT: nn.minimum {{.*}} -> tensor<?x4x!quant.uniform<i8
// CHECK-NEXT: quant.rescale
func.func @dynamic(%x: !row_a, %y: !row_a) -> !row_b {
  %0 = quant.rescale %x : !row_a to !row_b
  %1 = quant.rescale %y : !row_a to !row_b
  %2 = nn.minimum %0, %1 : (!row_b, !row_b) -> !row_b
  func.return %2 : !row_b
}

// HOIST-LABEL: func.func @hoisted(
// HOIST-SAME: [[X:%[a-z0-9_]+]]:
// HOIST-NEXT: [[C:%[a-z0-9_]+]] = nn.constant
// HOIST-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]]
// HOIST-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[C]]
// HOIST-NEXT: nn.minimum [[V0]], [[V1]]
// HOIST-NEXT: return
func.func @hoisted(%x: !channels) -> !wanted {
  %0 = nn.constant dense<[[[5]], [[-3]]]> : tensor<2x1x1xi8> : tensor<2x1x1x!quant.uniform<i8:f32:0, {0.5:3, 0.25:1}>>
  %1 = nn.minimum %x, %0 : (!channels, tensor<2x1x1x!quant.uniform<i8:f32:0, {0.5:3, 0.25:1}>>) -> !channels
  %2 = quant.rescale %1 : !channels to !wanted
  func.return %2 : !wanted
}

// The parameters of one column say nothing of those of the rows.

// HOIST-LABEL: func.func @not_hoisted_into_a_broadcast(
// HOIST-NEXT: nn.maximum
// HOIST-NEXT: quant.rescale
func.func @not_hoisted_into_a_broadcast(%x: !a, %y: tensor<1x1x4x4x!quant.uniform<i8:f32, 0.5:3>>) -> !wanted {
  %0 = nn.maximum %x, %y : (!a, tensor<1x1x4x4x!quant.uniform<i8:f32, 0.5:3>>) -> !a
  %1 = quant.rescale %0 : !a to !wanted
  func.return %1 : !wanted
}

// CANON-LABEL: func.func @splats(
// CANON-NEXT: nn.clip {{.*}} min -0.4000000059604645 max 6.0
// CANON-NEXT: return
func.func @splats(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = nn.constant dense<-0.4> : tensor<1x1xf32> : tensor<1x1xf32>
  %1 = nn.maximum %x, %0 {nn.key = "m"} : (tensor<?x4xf32>, tensor<1x1xf32>) -> tensor<?x4xf32>
  %2 = nn.constant dense<6.0> : tensor<f32> : tensor<f32>
  %3 = nn.minimum %2, %1 : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %3 : tensor<?x4xf32>
}

// On codes, a clip that the storage implies is gone at once.

// CANON-LABEL: func.func @splat_of_codes(
// CANON-NEXT: [[V0:%[a-z0-9_]+]] = nn.clip {{.*}} max 1.5
// CANON-NEXT: return [[V0]]
func.func @splat_of_codes(%x: !b) -> !b {
  %0 = nn.constant dense<[[[0]], [[0]]]> : tensor<2x1x1xi8> : !bound
  %1 = nn.maximum %x, %0 : (!b, !bound) -> !b
  %2 = nn.constant dense<[[[-126]], [[-126]]]> : tensor<2x1x1xi8> : !bound
  %3 = nn.minimum %1, %2 : (!b, !bound) -> !b
  func.return %3 : !b
}

// The constant is what gives the result its shape.

// CANON-LABEL: func.func @splat_that_broadcasts(
// CANON: nn.maximum
func.func @splat_that_broadcasts(%x: tensor<4xf32>) -> tensor<2x4xf32> {
  %0 = nn.constant dense<0.5> : tensor<2x1xf32> : tensor<2x1xf32>
  %1 = nn.maximum %x, %0 : (tensor<4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  func.return %1 : tensor<2x4xf32>
}
