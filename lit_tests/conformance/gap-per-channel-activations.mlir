// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: one scale for an activation
// Here: parameters follow their dimension through movement; ops that sum over it refuse

!a_1x16 = tensor<1x16x!quant.uniform<i8:f32, 0.5:3>>
!a_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32, 0.5:3>>
!f_1x2x2x2 = tensor<1x2x2x2xf32>
!f_1x4x2x2 = tensor<1x4x2x2xf32>
!p_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32:1, {0.5:3,0.25,0.125:-7,1.0}>>
!r_1x4x1x1 = tensor<1x4x1x1x!quant.uniform<i8:f32:1, {0.25:3,0.5,0.25,0.5}>>
!r_1x4x2x2 = tensor<1x4x2x2x!quant.uniform<i8:f32:1, {0.25:3,0.5,0.25,0.5}>>
!two = tensor<1x2x2x2x!quant.uniform<i8:f32:1, {0.25,0.125:-7}>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.max_pool2d [[X]] kernel [2, 2] : {{.*}} -> tensor<1x4x1x1x!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01,1.250000e-01:-7,1.000000e+00}>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]] : {{.*}} to tensor<1x4x1x1x!quant.uniform<i8:f32:1, {2.500000e-01:3,5.000000e-01,2.500000e-01,5.000000e-01}>>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !p_1x4x2x2) -> !r_1x4x1x1 {
  %0 = quant.rescale %x : !p_1x4x2x2 to !r_1x4x2x2
  %1 = nn.max_pool2d %0 kernel [2, 2] : (!r_1x4x2x2) -> !r_1x4x1x1
  return %1 : !r_1x4x1x1
}

// CHECK-LABEL: func.func @sliced(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.slice [[X]] starts [0, 1, 0, 0] stops [1, 3, 2, 2] steps [1, 1, 1, 1] : {{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32:1, {2.500000e-01,1.250000e-01:-7}>>
// CHECK-NEXT: return [[V0]]
func.func @sliced(%x: !p_1x4x2x2) -> !two {
  %0 = quant.dcast %x : !p_1x4x2x2 to !f_1x4x2x2
  %1 = nn.slice %0 starts [0, 1, 0, 0] stops [1, 3, 2, 2] steps [1, 1, 1, 1] : (!f_1x4x2x2) -> !f_1x2x2x2
  %2 = quant.qcast %1 : !f_1x2x2x2 to !two
  return %2 : !two
}

// CHECK-LABEL: func.func @merged_with_another_dimension(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x4x2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.reshape [[V0]] shape [1, 16] : {{.*}} -> tensor<1x16x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V1]]
func.func @merged_with_another_dimension(%x: !p_1x4x2x2) -> !a_1x16 {
  %0 = quant.rescale %x : !p_1x4x2x2 to !a_1x4x2x2
  %1 = nn.reshape %0 shape [1, 16] : (!a_1x4x2x2) -> !a_1x16
  return %1 : !a_1x16
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x4x2x2x!quant.uniform<i8:f32:1, {2.500000e-01:3,5.000000e-01,2.500000e-01,5.000000e-01}>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.max_pool2d [[V0]] kernel [2, 2] : {{.*}} -> tensor<1x4x1x1x!quant.uniform<i8:f32:1, {2.500000e-01:3,5.000000e-01,2.500000e-01,5.000000e-01}>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.flip [[V0]] axes [3] : {{.*}} -> tensor<1x4x2x2x!quant.uniform<i8:f32:1, {2.500000e-01:3,5.000000e-01,2.500000e-01,5.000000e-01}>>
// CHECK-NEXT: return [[V1]], [[V2]]
func.func @multi_use(%x: !p_1x4x2x2) -> (!r_1x4x1x1, !r_1x4x2x2) {
  %0 = quant.rescale %x : !p_1x4x2x2 to !r_1x4x2x2
  %1 = nn.max_pool2d %0 kernel [2, 2] : (!r_1x4x2x2) -> !r_1x4x1x1
  %2 = nn.flip %0 axes [3] : (!r_1x4x2x2) -> !r_1x4x2x2
  return %1, %2 : !r_1x4x1x1, !r_1x4x2x2
}
