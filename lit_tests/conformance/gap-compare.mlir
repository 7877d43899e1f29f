// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: codes compare as the numbers they name, also below a rescale that keeps all codes apart

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!fine_4 = tensor<4x!quant.uniform<i16:f32, 0.25:-5>>
!coarse_4 = tensor<4x!quant.uniform<i8:f32, 1.0:-5>>
!f_4 = tensor<4xf32>
!o_4 = tensor<4xi1>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.compare [[X]], [[Y]] mode lt : {{.*}} -> tensor<4xi1>
// CHECK-NEXT: return [[V0]]
func.func @once(%x: !a_4, %y: !a_4) -> !o_4 {
  %0 = quant.rescale %x : !a_4 to !fine_4
  %1 = quant.rescale %y : !a_4 to !fine_4
  %2 = nn.compare %0, %1 mode lt : (!fine_4, !fine_4) -> !o_4
  return %2 : !o_4
}

// CHECK-LABEL: func.func @merging(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00:-5>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.compare [[V0]], [[V1]] mode lt : {{.*}} -> tensor<4xi1>
// CHECK-NEXT: return [[V2]]
func.func @merging(%x: !a_4, %y: !a_4) -> !o_4 {
  %0 = quant.rescale %x : !a_4 to !coarse_4
  %1 = quant.rescale %y : !a_4 to !coarse_4
  %2 = nn.compare %0, %1 mode lt : (!coarse_4, !coarse_4) -> !o_4
  return %2 : !o_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.compare [[X]], [[Y]] mode ge : {{.*}} -> tensor<4xi1>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.arg_max [[X]] : {{.*}} -> tensor<1xi64>
// CHECK-NEXT: return [[V0]], [[V1]], [[V2]]
func.func @multi_use(%x: !a_4, %y: !a_4) -> (!f_4, !o_4, tensor<1xi64>) {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = quant.dcast %y : !a_4 to !f_4
  %2 = nn.compare %0, %1 mode ge : (!f_4, !f_4) -> !o_4
  %3 = nn.arg_max %0 : (!f_4) -> tensor<1xi64>
  return %0, %2, %3 : !f_4, !o_4, tensor<1xi64>
}

// CHECK-LABEL: func.func @mask(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.compare [[X]], [[Y]] mode gt : {{.*}} -> tensor<4xi1>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.select [[V0]], [[X]], [[Y]] : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V1]]
func.func @mask(%x: !a_4, %y: !a_4) -> !a_4 {
  %0 = quant.dcast %x : !a_4 to !f_4
  %1 = quant.dcast %y : !a_4 to !f_4
  %2 = nn.compare %0, %1 mode gt : (!f_4, !f_4) -> !o_4
  %3 = nn.select %2, %0, %1 : (!o_4, !f_4, !f_4) -> !f_4
  %4 = quant.qcast %3 : !f_4 to !a_4
  return %4 : !a_4
}

// CHECK-LABEL: func.func @moved_argmax(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.transpose [[X]] perm [1, 0] : {{.*}} -> tensor<?x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.arg_max [[V0]] : {{.*}} -> tensor<1x2xi64>
// CHECK-NEXT: return [[V1]]
func.func @moved_argmax(%x: tensor<2x?x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<1x2xi64> {
  %0 = quant.dcast %x : tensor<2x?x!quant.uniform<i8:f32, 0.5:3>> to tensor<2x?xf32>
  %1 = nn.transpose %0 perm [1, 0] : (tensor<2x?xf32>) -> tensor<?x2xf32>
  %2 = nn.arg_max %1 : (tensor<?x2xf32>) -> tensor<1x2xi64>
  return %2 : tensor<1x2xi64>
}
