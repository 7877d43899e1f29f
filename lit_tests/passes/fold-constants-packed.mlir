// RUN: qopt-opt %s -p 'fold-constants{dequantize=true}' --remarks --verify-diagnostics | filecheck %s

// A runtime that packs constant weights sums in another order, in layers with states, too.

module attributes {quant.arithmetic = "expressed"} {
// CHECK-LABEL: func.func @weights_of_a_layer(
// CHECK-COUNT-2: quant.dcast
func.func @weights_of_a_layer(%x: tensor<5x2x1xf32>) -> tensor<5x1x2x1xf32> {
  %c = nn.constant dense<3> : tensor<1x3x1xi8> : tensor<1x3x1x!quant.uniform<i8:f32, 0.1>>
  %b = nn.constant dense<0.5> : tensor<1x6xf32> : tensor<1x6xf32>
  // expected-remark@+1 {{would be ties}}
  %w = "quant.dcast"(%c) : (tensor<1x3x1x!quant.uniform<i8:f32, 0.1>>) -> tensor<1x3x1xf32>
  // expected-remark@+1 {{would be ties}}
  %r = "quant.dcast"(%c) : (tensor<1x3x1x!quant.uniform<i8:f32, 0.1>>) -> tensor<1x3x1xf32>
  %0 = nn.gru %x, %w, %r, %b : (tensor<5x2x1xf32>, tensor<1x3x1xf32>, tensor<1x3x1xf32>, tensor<1x6xf32>) -> tensor<5x1x2x1xf32>
  return %0 : tensor<5x1x2x1xf32>
}

// CHECK-LABEL: func.func @its_bias(
// CHECK-NOT: quant.dcast
func.func @its_bias(%x: tensor<5x2x1xf32>, %w: tensor<1x3x1xf32>) -> tensor<5x1x2x1xf32> {
  %c = nn.constant dense<3> : tensor<1x6xi8> : tensor<1x6x!quant.uniform<i8:f32, 0.1>>
  // expected-remark@+1 {{dequantize-of-constant fired, exact}}
  %b = "quant.dcast"(%c) : (tensor<1x6x!quant.uniform<i8:f32, 0.1>>) -> tensor<1x6xf32>
  %0 = nn.gru %x, %w, %w, %b : (tensor<5x2x1xf32>, tensor<1x3x1xf32>, tensor<1x3x1xf32>, tensor<1x6xf32>) -> tensor<5x1x2x1xf32>
  return %0 : tensor<5x1x2x1xf32>
}
}
