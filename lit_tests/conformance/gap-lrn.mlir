// RUN: qopt-opt %s -p "sink-rescale" --verify-numerics=6 | filecheck %s
// RUN: qopt-opt %s -p "sink-rescale{numerics=saturation}" --verify-numerics=6 | filecheck %s --check-prefix=WEAKER
//
// There: sinks through it, does not combine into it
// Here: equal types on both sides: rescales pass within a stated bound

!a_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32, 0.5:3>>
!b_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32, 0.25:-5>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x4x2x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.lrn [[V0]] size 3 : {{.*}} -> tensor<1x4x2x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
// WEAKER-LABEL: func.func @once(
// WEAKER-SAME: [[X:%[a-z0-9_]+]]:
// WEAKER-NEXT: [[V0:%[a-z0-9_]+]] = nn.lrn [[X]] size 3 : {{.*}} -> tensor<1x4x2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// WEAKER-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x4x2x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// WEAKER-NEXT: return [[V1]]
func.func @once(%x: !a_1x4x2x2) -> !b_1x4x2x2 {
  %0 = quant.rescale %x : !a_1x4x2x2 to !b_1x4x2x2
  %1 = nn.lrn %0 size 3 : (!b_1x4x2x2) -> !b_1x4x2x2
  return %1 : !b_1x4x2x2
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x4x2x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.lrn [[V0]] size 3 : {{.*}} -> tensor<1x4x2x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V0]]
func.func @multi_use(%x: !a_1x4x2x2) -> (!b_1x4x2x2, !b_1x4x2x2) {
  %0 = quant.rescale %x : !a_1x4x2x2 to !b_1x4x2x2
  %1 = nn.lrn %0 size 3 : (!b_1x4x2x2) -> !b_1x4x2x2
  return %1, %0 : !b_1x4x2x2, !b_1x4x2x2
}
