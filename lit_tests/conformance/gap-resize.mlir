// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: nearest is a movement, linear a requantizing op

!a_1x1x2x2 = tensor<1x1x2x2x!quant.uniform<i8:f32, 0.5:3>>
!a_1x1x4x4 = tensor<1x1x4x4x!quant.uniform<i8:f32, 0.5:3>>
!a_1x2x2x2 = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.5:3>>
!b_1x2x2x2 = tensor<1x2x2x2x!quant.uniform<i8:f32, 0.25:-5>>
!b_1x2x4x4 = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.25:-5>>
!f_1x2x2x2 = tensor<1x2x2x2xf32>
!f_1x2x4x4 = tensor<1x2x4x4xf32>
!u_1x1x4x4 = tensor<1x1x4x4x!quant.uniform<u8:f32, 0.5:131>>
!w_1x1x2x2 = tensor<1x1x2x2x!quant.uniform<i16:f32, 0.25>>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x2x2x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.resize_nearest [[V0]] scales [1.0, 1.0, 2.0, 2.0] coordinates asymmetric nearest floor : {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @once(%x: !a_1x2x2x2) -> !b_1x2x4x4 {
  %0 = quant.rescale %x : !a_1x2x2x2 to !b_1x2x2x2
  %1 = nn.resize_nearest %0 scales [1.0, 1.0, 2.0, 2.0] coordinates asymmetric nearest floor : (!b_1x2x2x2) -> !b_1x2x4x4
  return %1 : !b_1x2x4x4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x2x2x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.resize_nearest [[V0]] scales [1.0, 1.0, 2.0, 2.0] coordinates asymmetric nearest floor : {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.relu [[V1]] : {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V2]]
func.func @multi_use(%x: !a_1x2x2x2) -> (!b_1x2x4x4, !b_1x2x4x4) {
  %0 = quant.rescale %x : !a_1x2x2x2 to !b_1x2x2x2
  %1 = nn.resize_nearest %0 scales [1.0, 1.0, 2.0, 2.0] coordinates asymmetric nearest floor : (!b_1x2x2x2) -> !b_1x2x4x4
  %2 = nn.relu %1 : (!b_1x2x4x4) -> !b_1x2x4x4
  return %1, %2 : !b_1x2x4x4, !b_1x2x4x4
}

// CHECK-LABEL: func.func @region(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x2x2x2x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.resize_nearest [[V0]] scales [1.0, 1.0, 2.0, 2.0] coordinates asymmetric nearest floor : {{.*}} -> tensor<1x2x4x4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]]
func.func @region(%x: !a_1x2x2x2) -> !b_1x2x4x4 {
  %0 = quant.dcast %x : !a_1x2x2x2 to !f_1x2x2x2
  %1 = nn.resize_nearest %0 scales [1.0, 1.0, 2.0, 2.0] coordinates asymmetric nearest floor : (!f_1x2x2x2) -> !f_1x2x4x4
  %2 = quant.qcast %1 : !f_1x2x4x4 to !b_1x2x4x4
  return %2 : !b_1x2x4x4
}

// CHECK-LABEL: func.func @linear(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.resize_linear [[X]] scales [1.0, 1.0, 2.0, 2.0] : {{.*}} -> tensor<1x1x4x4x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: return [[V0]]
func.func @linear(%x: !a_1x1x2x2) -> !u_1x1x4x4 {
  %0 = quant.rescale %x : !a_1x1x2x2 to !w_1x1x2x2
  %1 = nn.resize_linear %0 scales [1.0, 1.0, 2.0, 2.0] : (!w_1x1x2x2) -> !a_1x1x4x4
  %2 = quant.rescale %1 : !a_1x1x4x4 to !u_1x1x4x4
  return %2 : !u_1x1x4x4
}
