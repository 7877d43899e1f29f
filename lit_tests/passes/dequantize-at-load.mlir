// RUN: qopt-opt %s -p "dequantize-at-load{where=all}" --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p "dequantize-at-load{where=all}" --verify-numerics=4 > %t
// RUN: qopt-opt %s -p "dequantize-at-load{where=all}" > %t && qopt-opt %t -p "dequantize-at-load{where=all}" > %t.2 && diff %t %t.2
// RUN: qopt-opt %s -p dequantize-at-load --target=onnxruntime | filecheck %s --check-prefix=ORT
// RUN: qopt-opt %s -p "dequantize-at-load{numerics=ties}" --target=onnxruntime | filecheck %s --check-prefix=TIES
// RUN: qopt-opt %s -p dequantize-at-load --target=generic > %t && qopt-opt %s > %t.2 && diff %t %t.2

// Weights of products on floats; the runtime makes integer kernels of the rest.

!w = tensor<2x4x1x1x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
!m = tensor<4x2x!quant.uniform<i8:f32:1, {0.5:3, 0.25}>>
!x = tensor<3x4x!quant.uniform<u8:f32, 0.5:3>>
!sums = tensor<2x!quant.uniform<i32:f32, 0.125>>
!fx = tensor<1x4x3x3xf32>
!fw = tensor<2x4x1x1xf32>
!fy = tensor<1x2x3x3xf32>

// CHECK-LABEL: func.func @convolution(
// CHECK: quant.dcast {{.*}} {onnx.at_load}
// ORT-LABEL: func.func @convolution(
// ORT: quant.dcast {{.*}} {onnx.at_load}
func.func @convolution(%x: !fx) -> !fy {
  // DOC-BEFORE
  %w = nn.constant dense<3> : tensor<2x4x1x1xi8> : !w
  // expected-remark@+1 {{weight-at-load fired, exact}}
  %1 = quant.dcast %w : !w to !fw
  %2 = nn.conv2d %x, %1 : (!fx, !fw) -> !fy
  // DOC-AFTER
  //   %w = nn.constant dense<3> : tensor<2x4x1x1xi8> : !w
  //   %1 = quant.dcast %w {onnx.at_load} : !w to !fw
  //   %2 = nn.conv2d %x, %1 : (!fx, !fw) -> !fy
  // DOC-END
  return %2 : !fy
}

// A product of dequantized codes is MatMulIntegerToFloat in the runtime; with a vector it is a Gemm.

// CHECK-LABEL: func.func @product(
// ORT-LABEL: func.func @product(
// ORT-NOT: at_load
func.func @product(%x: !x) -> tensor<3x2xf32> {
  %w = nn.constant dense<3> : tensor<4x2xi8> : !m
  %0 = quant.dcast %x : !x to tensor<3x4xf32>
  // expected-remark@+1 {{weight-at-load fired, exact}}
  %1 = quant.dcast %w : !m to tensor<4x2xf32>
  %2 = nn.matmul %0, %1 : (tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}

// ORT-LABEL: func.func @gemm(
// ORT: quant.dcast {{.*}} {onnx.at_load}
func.func @gemm(%x: !x, %b: tensor<2xf32>) -> tensor<3x2xf32> {
  %w = nn.constant dense<3> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 0.25>>
  %0 = quant.dcast %x : !x to tensor<3x4xf32>
  // expected-remark@+1 {{weight-at-load fired, exact}}
  %1 = quant.dcast %w : tensor<2x4x!quant.uniform<i8:f32, 0.25>> to tensor<2x4xf32>
  %2 = nn.fully_connected %0, %1, %b : (tensor<3x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}

// ORT-LABEL: func.func @summed_bias(
// ORT-NOT: at_load
func.func @summed_bias(%x: !x) -> tensor<3x2xf32> {
  %w = nn.constant dense<3> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32, 0.25>>
  %c = nn.constant dense<7> : tensor<2xi32> : !sums
  %0 = quant.dcast %x : !x to tensor<3x4xf32>
  // expected-remark@+1 {{weight-at-load fired, exact}}
  %1 = quant.dcast %w : tensor<2x4x!quant.uniform<i8:f32, 0.25>> to tensor<2x4xf32>
  %b = quant.dcast %c : !sums to tensor<2xf32>
  %2 = nn.fully_connected %0, %1, %b : (tensor<3x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}

// ORT-LABEL: func.func @blocks(
// ORT-NOT: at_load
func.func @blocks(%x: tensor<3x4xf32>) -> tensor<3x2xf32> {
  %w = nn.constant dense<3> : tensor<2x4xi8> : tensor<2x4x!quant.uniform<i8:f32:{1:2}, {{0.5, 0.25}}>>
  // expected-remark@+1 {{weight-at-load refused [grid]: it has scales in blocks, or that are not f32}}
  %1 = quant.dcast %w : tensor<2x4x!quant.uniform<i8:f32:{1:2}, {{0.5, 0.25}}>> to tensor<2x4xf32>
  %2 = nn.fully_connected %x, %1 : (tensor<3x4xf32>, tensor<2x4xf32>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}

// A weight that something else reads as well stays a plain dequantize.

// ORT-LABEL: func.func @also_returned(
// ORT-NOT: at_load
func.func @also_returned(%x: !fx) -> (!fy, !fw) {
  %w = nn.constant dense<3> : tensor<2x4x1x1xi8> : !w
  %1 = quant.dcast %w : !w to !fw
  %2 = nn.conv2d %x, %1 : (!fx, !fw) -> !fy
  return %2, %1 : !fy, !fw
}

// A product of blocks says that its input stays as it is, which another way of adding up costs.

!blocks = tensor<4x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{0.5, 0.25}, {0.125, 1.0}}>>

// TIES-LABEL: func.func @product_of_blocks(
// TIES: nn.matmul {{.*}} {onnx.n_bits = 1 : i64}
// ORT-LABEL: func.func @product_of_blocks(
// ORT-NOT: n_bits
func.func @product_of_blocks(%x: tensor<3x4xf32>) -> tensor<3x2xf32> {
  %w = nn.constant dense<3> : tensor<4x2xi8> : !blocks
  // expected-remark@+1 {{weight-at-load refused [grid]: it has scales in blocks, or that are not f32}}
  %1 = quant.dcast %w : !blocks to tensor<4x2xf32>
  // expected-remark@+1 {{product-of-blocks refused [numerics]: would be ties (its kernel adds up by blocks), but only exact is allowed}}
  %2 = nn.matmul %x, %1 : (tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}

// TIES-LABEL: func.func @shared_blocks(
// TIES-NOT: n_bits
func.func @shared_blocks(%x: tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<4x2xf32>) {
  %w = nn.constant dense<3> : tensor<4x2xi8> : !blocks
  %1 = quant.dcast %w : !blocks to tensor<4x2xf32>
  // expected-remark@+1 {{product-of-blocks refused [shared]: another op reads the weight as floats}}
  %2 = nn.matmul %x, %1 : (tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
  %3 = nn.relu %1 : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %2, %3 : tensor<3x2xf32>, tensor<4x2xf32>
}
