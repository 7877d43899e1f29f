// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: a movement, by indices known or not

!a_4x2 = tensor<4x2x!quant.uniform<i8:f32, 0.5:3>>
!b_3x2 = tensor<3x2x!quant.uniform<i8:f32, 0.25:-5>>
!b_4x2 = tensor<4x2x!quant.uniform<i8:f32, 0.25:-5>>
!f_3x2 = tensor<3x2xf32>
!f_4x2 = tensor<4x2xf32>
!i_3 = tensor<3xi64>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[3, 0, 3]> : tensor<3xi64> : tensor<3xi64>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.gather [[X]], [[V0]] : {{.*}} -> tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[V1]] : {{.*}} to tensor<3x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V2]]
func.func @once(%x: !a_4x2) -> !b_3x2 {
  %n = nn.constant dense<[3, 0, 3]> : tensor<3xi64> : !i_3
  %0 = quant.rescale %x : !a_4x2 to !b_4x2
  %1 = nn.gather %0, %n : (!b_4x2, !i_3) -> !b_3x2
  return %1 : !b_3x2
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[3, 0, 3]> : tensor<3xi64> : tensor<3xi64>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.gather [[X]], [[V0]] : {{.*}} -> tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[V1]] : {{.*}} to tensor<3x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V3:%[a-z0-9_]+]] = nn.relu [[V2]] : {{.*}} -> tensor<3x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V2]], [[V3]]
func.func @multi_use(%x: !a_4x2) -> (!b_3x2, !b_3x2) {
  %n = nn.constant dense<[3, 0, 3]> : tensor<3xi64> : !i_3
  %0 = quant.rescale %x : !a_4x2 to !b_4x2
  %1 = nn.gather %0, %n : (!b_4x2, !i_3) -> !b_3x2
  %2 = nn.relu %1 : (!b_3x2) -> !b_3x2
  return %1, %2 : !b_3x2, !b_3x2
}

// CHECK-LABEL: func.func @region(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[3, 0, 3]> : tensor<3xi64> : tensor<3xi64>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.gather [[X]], [[V0]] : {{.*}} -> tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = quant.rescale [[V1]] : {{.*}} to tensor<3x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V2]]
func.func @region(%x: !a_4x2) -> !b_3x2 {
  %n = nn.constant dense<[3, 0, 3]> : tensor<3xi64> : !i_3
  %0 = quant.dcast %x : !a_4x2 to !f_4x2
  %1 = nn.gather %0, %n : (!f_4x2, !i_3) -> !f_3x2
  %2 = quant.qcast %1 : !f_3x2 to !b_3x2
  return %2 : !b_3x2
}
