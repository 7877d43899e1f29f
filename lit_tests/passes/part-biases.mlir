// RUN: qopt-opt %s -p "part-biases{where=all}" --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p "part-biases{where=all}" --verify-numerics=4 > %t
// RUN: qopt-opt %s -p "part-biases{where=all}" > %t && qopt-opt %t -p "part-biases{where=all}" > %t.2 && diff %t %t.2
// RUN: qopt-opt %s -p part-biases --target=onnxruntime --remarks 2>&1 | filecheck %s --check-prefix=ORT
// RUN: qopt-opt %s -p part-biases --target=generic > %t && qopt-opt %s > %t.2 && diff %t %t.2

// A bias that would make a Gemm of a product of codes has a dimension more.

!x = tensor<3x4x!quant.uniform<u8:f32, 0.5:3>>
!w = tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
!m = tensor<4x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
!rows = tensor<5x3x4x!quant.uniform<u8:f32, 0.5:3>>
!fx = tensor<3x4xf32>
!fw = tensor<2x4xf32>
!fy = tensor<3x2xf32>
!fb = tensor<1x1x2xf32>
!wide = tensor<1x3x2xf32>

// CHECK-LABEL: func.func @gemm(
// CHECK: nn.constant {{.*}} : tensor<1x1x2xf32>
// CHECK-NEXT: nn.fully_connected %{{[a-z0-9_]+, %[a-z0-9_]+}} : (tensor<3x4xf32>
// CHECK-NEXT: nn.add {{.*}} -> tensor<1x3x2xf32>
// CHECK-NEXT: nn.reshape {{.*}} {nn.key = "gemm"} : (tensor<1x3x2xf32>) -> tensor<3x2xf32>
// ORT: 'nn.fully_connected' (gemm) part-bias fired, exact
func.func @gemm(%codes: !x, %weight: !w) -> tensor<3x2xf32> {
  // DOC-BEFORE
  %x = quant.dcast %codes : !x to !fx
  %w = quant.dcast %weight : !w to !fw
  %b = nn.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  // expected-remark@+1 {{part-bias fired, exact}}
  %1 = nn.fully_connected %x, %w, %b {nn.key = "gemm"} : (!fx, !fw, tensor<2xf32>) -> !fy
  // DOC-AFTER
  //   %x = quant.dcast %codes : !x to !fx
  //   %w = quant.dcast %weight : !w to !fw
  //   %0 = nn.constant dense<[[[1.0, 2.0]]]> : tensor<1x1x2xf32> : !fb
  //   %2 = nn.fully_connected %x, %w : (!fx, !fw) -> !fy
  //   %3 = nn.add %2, %0 : (!fy, !fb) -> !wide
  //   %1 = nn.reshape %3 {nn.key = "gemm"} : (!wide) -> !fy
  // DOC-END
  return %1 : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @batched(
// CHECK: nn.matmul
// CHECK: nn.add {{.*}} (tensor<5x3x2xf32>, tensor<1x2xf32>) -> tensor<5x3x2xf32>
// CHECK-NEXT: return
func.func @batched(%x: !rows, %w: !m) -> tensor<5x3x2xf32> {
  %b = nn.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %0 = quant.dcast %x : !rows to tensor<5x3x4xf32>
  %1 = quant.dcast %w : !m to tensor<4x2xf32>
  %2 = nn.matmul %0, %1 : (tensor<5x3x4xf32>, tensor<4x2xf32>) -> tensor<5x3x2xf32>
  // expected-remark@-1 {{part-bias fired, exact}}
  %3 = nn.add %2, %b : (tensor<5x3x2xf32>, tensor<2xf32>) -> tensor<5x3x2xf32>
  return %3 : tensor<5x3x2xf32>
}

// CHECK-LABEL: func.func @argument(
// CHECK: nn.fully_connected %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} :
func.func @argument(%x: !x, %w: !w, %b: tensor<2xf32>) -> tensor<3x2xf32> {
  %0 = quant.dcast %x : !x to tensor<3x4xf32>
  %1 = quant.dcast %w : !w to !fw
  // expected-remark@+1 {{part-bias refused [not-constant]: what is added is no constant}}
  %2 = nn.fully_connected %0, %1, %b : (tensor<3x4xf32>, !fw, tensor<2xf32>) -> tensor<3x2xf32>
  return %2 : tensor<3x2xf32>
}

// What is quantized next is in the integer kernel with its bias.

// CHECK-LABEL: func.func @quantized(
// ORT: 'nn.fully_connected' (codes) part-bias refused [kernel]: onnxruntime takes the bias with the product
func.func @quantized(%x: !x, %w: !w) -> tensor<3x2x!quant.uniform<u8:f32, 0.5:3>> {
  %b = nn.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %0 = quant.dcast %x : !x to tensor<3x4xf32>
  %1 = quant.dcast %w : !w to !fw
  // expected-remark@+1 {{part-bias fired, exact}}
  %2 = nn.fully_connected %0, %1, %b {nn.key = "codes"} : (tensor<3x4xf32>, !fw, tensor<2xf32>) -> tensor<3x2xf32>
  %3 = quant.qcast %2 : tensor<3x2xf32> to tensor<3x2x!quant.uniform<u8:f32, 0.5:3>>
  return %3 : tensor<3x2x!quant.uniform<u8:f32, 0.5:3>>
}

module attributes {quant.arithmetic = "expressed"} {
  func.func @in_floats(%x: !x, %w: !w) -> tensor<3x2xf32> {
    %b = nn.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
    %0 = quant.dcast %x : !x to tensor<3x4xf32>
    %1 = quant.dcast %w : !w to !fw
    // expected-remark@+1 {{part-bias refused [numerics]: would be ties (the bias is added last; floats round in another order), but only exact is allowed}}
    %2 = nn.fully_connected %0, %1, %b : (tensor<3x4xf32>, !fw, tensor<2xf32>) -> tensor<3x2xf32>
    return %2 : tensor<3x2xf32>
  }
}
