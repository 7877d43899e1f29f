// RUN: qopt-opt %s -p raise-dynamic --remarks --verify-diagnostics | filecheck %s

!f = tensor<2x2xf32>
!q = tensor<2x2xui8>
!sums = tensor<2x2xi32>
!w = tensor<2x2x!quant.uniform<i8:f32, 0.5>>

// CHECK-LABEL: func.func @matmul(
func.func @matmul(%x: !f) -> !f {
  // DOC-BEFORE
  %0 = nn.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %1 = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %2, %3, %4 = nn.dynamic_quantize %x : (!f) -> (!q, tensor<f32>, tensor<ui8>)
  %5 = onnx.node "MatMulInteger" (%2, %0, %4) : (!q, tensor<2x2xi8>, tensor<ui8>) -> !sums
  %6 = onnx.node "Cast" (%5) attributes {to = 1 : i64} : (!sums) -> !f
  %7 = nn.mul %3, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // expected-remark@+1 {{raise-dynamic fired, exact}}
  %8 = nn.mul %6, %7 {nn.key = "fc"} : (!f, tensor<f32>) -> !f
  // DOC-AFTER
  //   %0 = nn.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : !w
  //   %8 = nn.dynamic_matmul %x, %0 {nn.key = "fc"} : (!f, !w) -> !f
  // DOC-END
  func.return %8 : !f
}

// Zero points and scales of columns, factors the other way round, rows not known.
// CHECK-LABEL: func.func @columns(
// CHECK-NEXT: [[W:%.*]] = nn.constant {{.*}} : tensor<2x2x!quant.uniform<u8:f32:1, {5.000000e-01:3,2.500000e-01:4}>>
// CHECK-NEXT: nn.dynamic_matmul %{{.*}}, [[W]] : (tensor<?x2xf32>, {{.*}}) -> tensor<?x2xf32>
func.func @columns(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %w = nn.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xui8> : tensor<2x2xui8>
  %zw = nn.constant dense<[3, 4]> : tensor<2xui8> : tensor<2xui8>
  %sw = nn.constant dense<[0.5, 0.25]> : tensor<2xf32> : tensor<2xf32>
  %q, %s, %z = nn.dynamic_quantize %x : (tensor<?x2xf32>) -> (tensor<?x2xui8>, tensor<f32>, tensor<ui8>)
  %0 = onnx.node "MatMulInteger" (%q, %w, %z, %zw) : (tensor<?x2xui8>, tensor<2x2xui8>, tensor<ui8>, tensor<2xui8>) -> tensor<?x2xi32>
  %1 = onnx.node "Cast" (%0) attributes {to = 1 : i64} : (tensor<?x2xi32>) -> tensor<?x2xf32>
  %2 = nn.mul %sw, %s : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  // expected-remark@+1 {{raise-dynamic fired, exact}}
  %y = nn.mul %2, %1 : (tensor<2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}

// The sums are also read as they are: both stay.
// CHECK-LABEL: func.func @multi_use(
// CHECK: onnx.node "MatMulInteger"
// CHECK: nn.dynamic_matmul
func.func @multi_use(%x: !f) -> (!f, !sums) {
  %w = nn.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %sw = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %q, %s, %z = nn.dynamic_quantize %x : (!f) -> (!q, tensor<f32>, tensor<ui8>)
  %0 = onnx.node "MatMulInteger" (%q, %w, %z) : (!q, tensor<2x2xi8>, tensor<ui8>) -> !sums
  %1 = onnx.node "Cast" (%0) attributes {to = 1 : i64} : (!sums) -> !f
  %2 = nn.mul %s, %sw : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // expected-remark@+1 {{raise-dynamic fired, exact}}
  %y = nn.mul %1, %2 : (!f, tensor<f32>) -> !f
  func.return %y, %0 : !f, !sums
}

// CHECK-LABEL: func.func @weight_at_run_time(
// CHECK-NOT: nn.dynamic_matmul
func.func @weight_at_run_time(%x: !f, %w: tensor<2x2xi8>, %sw: tensor<f32>) -> !f {
  %q, %s, %z = nn.dynamic_quantize %x : (!f) -> (!q, tensor<f32>, tensor<ui8>)
  %0 = onnx.node "MatMulInteger" (%q, %w, %z) : (!q, tensor<2x2xi8>, tensor<ui8>) -> !sums
  %1 = onnx.node "Cast" (%0) attributes {to = 1 : i64} : (!sums) -> !f
  %2 = nn.mul %s, %sw : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // expected-remark@+1 {{raise-dynamic refused [weight]: the weight is no constant of bytes}}
  %y = nn.mul %1, %2 : (!f, tensor<f32>) -> !f
  func.return %y : !f
}

// CHECK-LABEL: func.func @scale_at_run_time(
// CHECK-NOT: nn.dynamic_matmul
func.func @scale_at_run_time(%x: !f, %sw: tensor<f32>) -> !f {
  %w = nn.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %q, %s, %z = nn.dynamic_quantize %x : (!f) -> (!q, tensor<f32>, tensor<ui8>)
  %0 = onnx.node "MatMulInteger" (%q, %w, %z) : (!q, tensor<2x2xi8>, tensor<ui8>) -> !sums
  %1 = onnx.node "Cast" (%0) attributes {to = 1 : i64} : (!sums) -> !f
  %2 = nn.mul %s, %sw : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // expected-remark@+1 {{raise-dynamic refused [qparams]: scale or zero point of the weight is no constant}}
  %y = nn.mul %1, %2 : (!f, tensor<f32>) -> !f
  func.return %y : !f
}

// CHECK-LABEL: func.func @scales_along_rows(
// CHECK-NOT: nn.dynamic_matmul
func.func @scales_along_rows(%x: !f) -> !f {
  %w = nn.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2xi8>
  %sw = nn.constant dense<[[0.5], [0.25]]> : tensor<2x1xf32> : tensor<2x1xf32>
  %q, %s, %z = nn.dynamic_quantize %x : (!f) -> (!q, tensor<f32>, tensor<ui8>)
  %0 = onnx.node "MatMulInteger" (%q, %w, %z) : (!q, tensor<2x2xi8>, tensor<ui8>) -> !sums
  %1 = onnx.node "Cast" (%0) attributes {to = 1 : i64} : (!sums) -> !f
  %2 = nn.mul %s, %sw : (tensor<f32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  // expected-remark@+1 {{raise-dynamic refused [qparams]: the scales do not lie along the channels of the weight}}
  %y = nn.mul %1, %2 : (!f, tensor<2x1xf32>) -> !f
  func.return %y : !f
}
