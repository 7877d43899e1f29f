// RUN: qopt-opt %s -p "fold-constants{dequantize=true},dce" --verify-numerics=6 | filecheck %s
//
// There: Q(Splat) and DQ(Splat), the splat duplicated
// Here: Q of any constant; DQ of one on request (fold-constants{dequantize=true})

!a_4 = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!b_4 = tensor<4x!quant.uniform<i8:f32, 0.25:-5>>
!f_4 = tensor<4xf32>

// CHECK-LABEL: func.func @once(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<6> : tensor<4xi8> : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[V0]]
func.func @once() -> !a_4 {
  %c = nn.constant dense<1.3> : tensor<4xf32> : !f_4
  %0 = quant.qcast %c : !f_4 to !a_4
  return %0 : !a_4
}

// CHECK-LABEL: func.func @dequantize(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<2.000000e+00> : tensor<4xf32> : tensor<4xf32>
// CHECK-NEXT: return [[V0]]
func.func @dequantize() -> !f_4 {
  %c = nn.constant dense<7> : tensor<4xi8> : !a_4
  %0 = quant.dcast %c : !a_4 to !f_4
  return %0 : !f_4
}

// CHECK-LABEL: func.func @multi_use(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.constant dense<[1.250000e+00, -2.000000e+00, 0.000000e+00, 9.900000e+01]> : tensor<4xf32> : tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.constant dense<[5, -1, 3, 127]> : tensor<4xi8> : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.constant dense<[0, -13, -5, 127]> : tensor<4xi8> : tensor<4x!quant.uniform<i8:f32, 2.500000e-01:-5>>
// CHECK-NEXT: return [[V1]], [[V2]], [[V0]]
func.func @multi_use() -> (!a_4, !b_4, !f_4) {
  %c = nn.constant dense<[1.25, -2.0, 0.0, 99.0]> : tensor<4xf32> : !f_4
  %0 = quant.qcast %c : !f_4 to !a_4
  %1 = quant.qcast %c : !f_4 to !b_4
  return %0, %1, %c : !a_4, !b_4, !f_4
}
