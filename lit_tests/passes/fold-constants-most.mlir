// RUN: qopt-opt %s -p 'fold-constants{dequantize=true most=2}' --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p 'fold-constants{dequantize=true most=2}' --verify-numerics=2 > %t

// Small dequantized constants become floats, large ones stay codes.

// CHECK-LABEL: func.func @sizes(
// CHECK: nn.constant dense<[5.000000e-01, 1.000000e+00]> : tensor<2xf32>
// CHECK: quant.dcast {{.*}} to tensor<3xf32>
func.func @sizes() -> (tensor<2xf32>, tensor<3xf32>) {
  %a = nn.constant dense<[1, 2]> : tensor<2xi8> : tensor<2x!quant.uniform<i8:f32, 0.5>>
  %b = nn.constant dense<[1, 2, 3]> : tensor<3xi8> : tensor<3x!quant.uniform<i8:f32, 0.5>>
  // expected-remark @+1 {{dequantize-of-constant fired, exact}}
  %0 = quant.dcast %a : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2xf32>
  // expected-remark @+1 {{dequantize-of-constant refused [size]: 3 elements would be floats, the cap is 2}}
  %1 = quant.dcast %b : tensor<3x!quant.uniform<i8:f32, 0.5>> to tensor<3xf32>
  return %0, %1 : tensor<2xf32>, tensor<3xf32>
}
