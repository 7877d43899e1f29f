// RUN: qopt-opt %s -p lower-dynamic --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p "lower-dynamic{to=floats numerics=relaxed}" | filecheck %s --check-prefix=FLOAT

!f = tensor<2x2xf32>
!q = tensor<2x2xui8>
!sums = tensor<2x2xi32>
!w = tensor<2x2x!quant.uniform<i8:f32, 0.5>>

// CHECK-LABEL: func.func @matmul(
// CHECK: onnx.node "MatMulInteger"
// FLOAT-LABEL: func.func @matmul(
// FLOAT-NEXT: [[C:%.*]] = nn.constant
// FLOAT-NEXT: [[W:%.*]] = quant.dcast [[C]]
// FLOAT-NEXT: nn.matmul %{{.*}}, [[W]] {nn.key = "fc"}
func.func @matmul(%x: !f) -> !f {
  // DOC-BEFORE
  %0 = nn.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : !w
  // expected-remark@+1 {{lower-dynamic fired, exact}}
  %8 = nn.dynamic_matmul %x, %0 {nn.key = "fc"} : (!f, !w) -> !f
  // DOC-AFTER
  //   %0 = nn.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8> : tensor<2x2xi8>
  //   %1 = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
  //   %2, %3, %4 = nn.dynamic_quantize %x : (!f) -> (!q, tensor<f32>, tensor<ui8>)
  //   %5 = onnx.node "MatMulInteger" (%2, %0, %4) : (!q, tensor<2x2xi8>, tensor<ui8>) -> !sums
  //   %6 = onnx.node "Cast" (%5) attributes {to = 1 : i64} : (!sums) -> !f
  //   %7 = nn.mul %3, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  //   %8 = nn.mul %6, %7 {nn.key = "fc"} : (!f, tensor<f32>) -> !f
  // DOC-END
  func.return %8 : !f
}

// Scales and zero points of output channels; the scales lie along them.
// CHECK-LABEL: func.func @channels(
// CHECK: nn.constant {{.*}} : tensor<3x1xf32>
// CHECK: onnx.node "ConvInteger" {{.*}} attributes {dilations = array<i64: 1>, group = 1 : i64, kernel_shape = array<i64: 2>, pads = array<i64: 0, 1>, strides = array<i64: 2>}
// CHECK: nn.mul {{.*}} -> tensor<3x1xf32>
// FLOAT-LABEL: func.func @channels(
// FLOAT: nn.conv1d {{.*}} strides [2] pads [0, 1]
func.func @channels(%x: tensor<?x2x5xf32>) -> tensor<?x3x3xf32> {
  %w = nn.constant dense<7> : tensor<3x2x2xi8> : tensor<3x2x2x!quant.uniform<u8:f32:0, {0.5:1, 0.25:2, 0.125:3}>>
  // expected-remark@+1 {{lower-dynamic fired, exact}}
  %y = nn.dynamic_conv1d %x, %w strides [2] pads [0, 1] : (tensor<?x2x5xf32>, tensor<3x2x2x!quant.uniform<u8:f32:0, {0.5:1, 0.25:2, 0.125:3}>>) -> tensor<?x3x3xf32>
  func.return %y : tensor<?x3x3xf32>
}

// CHECK-LABEL: func.func @no_constant(
// CHECK-NEXT: nn.dynamic_matmul
func.func @no_constant(%x: !f, %w: !w) -> !f {
  // expected-remark@+1 {{lower-dynamic refused [weight]: the weight is no constant}}
  %y = nn.dynamic_matmul %x, %w : (!f, !w) -> !f
  func.return %y : !f
}
