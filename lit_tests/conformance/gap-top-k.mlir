// RUN: qopt-opt %s -p "integerize,fold-rescale,place-rescales,dce" --verify-numerics=6 | filecheck %s
//
// There: not handled
// Here: values pass any rescale; where indices are used, one that keeps all codes apart

!a_8 = tensor<1x8x!quant.uniform<i8:f32, 0.5:3>>
!a_2 = tensor<1x2x!quant.uniform<i8:f32, 0.5:3>>
!fine_8 = tensor<1x8x!quant.uniform<i16:f32, 0.25:-5>>
!fine_2 = tensor<1x2x!quant.uniform<i16:f32, 0.25:-5>>
!coarse_8 = tensor<1x8x!quant.uniform<i8:f32, 1.0:-5>>
!coarse_2 = tensor<1x2x!quant.uniform<i8:f32, 1.0:-5>>
!f_8 = tensor<1x8xf32>
!f_2 = tensor<1x2xf32>
!i_2 = tensor<1x2xi64>

// CHECK-LABEL: func.func @once(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]]:2 = nn.top_k [[X]] k 2 : {{.*}} -> (tensor<1x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<1x2xi64>)
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]]#0 : {{.*}} to tensor<1x2x!quant.uniform<i16:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V0]]#1
func.func @once(%x: !a_8) -> (!fine_2, !i_2) {
  %0 = quant.rescale %x : !a_8 to !fine_8
  %1, %2 = nn.top_k %0 k 2 : (!fine_8) -> (!fine_2, !i_2)
  return %1, %2 : !fine_2, !i_2
}

// CHECK-LABEL: func.func @merging(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<1x8x!quant.uniform<i8:f32, 1.000000e+00:-5>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]]:2 = nn.top_k [[V0]] k 2 : {{.*}} -> (tensor<1x2x!quant.uniform<i8:f32, 1.000000e+00:-5>>, tensor<1x2xi64>)
// CHECK-NEXT: return [[V1]]#0, [[V1]]#1
func.func @merging(%x: !a_8) -> (!coarse_2, !i_2) {
  %0 = quant.rescale %x : !a_8 to !coarse_8
  %1, %2 = nn.top_k %0 k 2 : (!coarse_8) -> (!coarse_2, !i_2)
  return %1, %2 : !coarse_2, !i_2
}

// CHECK-LABEL: func.func @values_of_merged(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]]:2 = nn.top_k [[X]] k 2 largest false : {{.*}} -> (tensor<1x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<1x2xi64>)
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]]#0 : {{.*}} to tensor<1x2x!quant.uniform<i8:f32, 1.000000e+00:-5>>
// CHECK-NEXT: return [[V1]]
func.func @values_of_merged(%x: !a_8) -> !coarse_2 {
  %0 = quant.rescale %x : !a_8 to !coarse_8
  %1, %2 = nn.top_k %0 k 2 largest false : (!coarse_8) -> (!coarse_2, !i_2)
  return %1 : !coarse_2
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<1x8xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]]:2 = nn.top_k [[X]] k 2 : {{.*}} -> (tensor<1x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<1x2xi64>)
// CHECK-NEXT: [[V2:%[a-z0-9_]+]]:2 = nn.top_k [[V0]] k 2 largest false : {{.*}} -> (tensor<1x2xf32>, tensor<1x2xi64>)
// CHECK-NEXT: return [[V1]]#0, [[V1]]#1, [[V2]]#0
func.func @multi_use(%x: !a_8) -> (!a_2, !i_2, !f_2) {
  %0 = quant.dcast %x : !a_8 to !f_8
  %1, %2 = nn.top_k %0 k 2 : (!f_8) -> (!f_2, !i_2)
  %3 = quant.qcast %1 : !f_2 to !a_2
  %4, %5 = nn.top_k %0 k 2 largest false : (!f_8) -> (!f_2, !i_2)
  return %3, %2, %4 : !a_2, !i_2, !f_2
}

// CHECK-LABEL: func.func @rows(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]]:2 = nn.top_k [[X]] k 3 : {{.*}} -> (tensor<2x?x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>, tensor<2x?x3xi64>)
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]]#0 : {{.*}} to tensor<2x?x3x!quant.uniform<i16:f32:0, {2.500000e-01,1.250000e-01}>>
// CHECK-NEXT: return [[V1]], [[V0]]#1
func.func @rows(%x: tensor<2x?x6x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> (tensor<2x?x3x!quant.uniform<i16:f32:0, {0.25, 0.125}>>, tensor<2x?x3xi64>) {
  %0 = quant.rescale %x : tensor<2x?x6x!quant.uniform<i8:f32:0, {0.5, 0.25}>> to tensor<2x?x6x!quant.uniform<i16:f32:0, {0.25, 0.125}>>
  %1, %2 = nn.top_k %0 k 3 : (tensor<2x?x6x!quant.uniform<i16:f32:0, {0.25, 0.125}>>) -> (tensor<2x?x3x!quant.uniform<i16:f32:0, {0.25, 0.125}>>, tensor<2x?x3xi64>)
  return %1, %2 : tensor<2x?x3x!quant.uniform<i16:f32:0, {0.25, 0.125}>>, tensor<2x?x3xi64>
}
