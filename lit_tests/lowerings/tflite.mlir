// RUN: qopt-opt %s -p convert-nn-to-tflite,cse,dce --split-input-file | filecheck %s

!x = !quant.uniform<i8:f32, 0.05:3>
!w = !quant.uniform<i8:f32:0, {0.01,0.02}>
!b = !quant.uniform<i32:f32:0, {0.0005,0.001}>
!y = !quant.uniform<i8:f32, 0.1:-20>

// The activation goes into the node; a scale per channel stays on dimension 0.
// CHECK-LABEL: @convolution
// CHECK: [[PERM:%.*]] = nn.constant dense<[0, 2, 3, 1]>
// CHECK: tflite.node "TRANSPOSE" (%{{.*}}, [[PERM]]) : {{.*}} -> tensor<1x4x4x3x!quant.uniform<i8:f32, 5.000000e-02:3>>
// CHECK: tflite.node "CONV_2D"
// CHECK-SAME: fused_activation_function = "RELU", padding = "SAME"
// CHECK-SAME: nn.key = "conv"
// CHECK-SAME: tensor<2x3x3x3x!quant.uniform<i8:f32:0, {1.000000e-02,2.000000e-02}>>
// CHECK-NOT: RELU
// CHECK: tflite.node "MAX_POOL_2D"
// CHECK: tflite.node "TRANSPOSE"
func.func @convolution(%x: tensor<1x3x4x4x!x>) -> tensor<1x2x2x2x!y> {
  %w = nn.constant dense<1> : tensor<2x3x3x3xi8> : tensor<2x3x3x3x!w>
  %b = nn.constant dense<[5, -7]> : tensor<2xi32> : tensor<2x!b>
  %0 = nn.conv2d %x, %w, %b pads [1, 1, 1, 1] {nn.key = "conv"}
     : (tensor<1x3x4x4x!x>, tensor<2x3x3x3x!w>, tensor<2x!b>) -> tensor<1x2x4x4x!y>
  %1 = nn.relu %0 : (tensor<1x2x4x4x!y>) -> tensor<1x2x4x4x!y>
  %2 = nn.max_pool2d %1 kernel [2, 2] strides [2, 2]
     : (tensor<1x2x4x4x!y>) -> tensor<1x2x2x2x!y>
  return %2 : tensor<1x2x2x2x!y>
}

// -----

!x = !quant.uniform<i8:f32, 0.0517283:3>
!y = !quant.uniform<i8:f32, 0.2117339:-20>

// What two ops read is not clamped for both.
// CHECK-LABEL: @two_uses
// CHECK: tflite.node "MUL" (%{{.*}}) options {fused_activation_function = "NONE"}
// CHECK: tflite.node "MAXIMUM"
func.func @two_uses(%x: tensor<2x3x!x>) -> (tensor<2x3x!y>, tensor<2x3x!y>) {
  %0 = nn.mul %x, %x : (tensor<2x3x!x>, tensor<2x3x!x>) -> tensor<2x3x!y>
  %1 = nn.relu %0 : (tensor<2x3x!y>) -> tensor<2x3x!y>
  return %0, %1 : tensor<2x3x!y>, tensor<2x3x!y>
}

// -----

!x = !quant.uniform<i8:f32, 0.05:3>
!half = !quant.uniform<i8:f32, 0.025:3>
!y = !quant.uniform<i8:f32, 0.0717:-20>

// Eight bits are enough for a factor of two; a factor with more of them is a float.
// CHECK-LABEL: @rescales
// CHECK: tflite.node "QUANTIZE" (%{{.*}}) : (tensor<4x!quant.uniform<i8:f32, 5.000000e-02:3>>) -> tensor<4x!quant.uniform<i8:f32, 2.500000e-02:3>>
// CHECK: tflite.node "MUL"
func.func @rescales(%x: tensor<4x!x>) -> (tensor<4x!half>, tensor<4x!y>) {
  %0 = quant.rescale %x : tensor<4x!x> to tensor<4x!half>
  %1 = quant.rescale %x : tensor<4x!x> to tensor<4x!y>
  return %0, %1 : tensor<4x!half>, tensor<4x!y>
}

// -----

// A dimension is split and joined where it lies: one transpose shuffles channels.
// CHECK-LABEL: @shuffle
// CHECK: tflite.node "CONV_2D"
// CHECK: tflite.node "RESHAPE" {{.*}} -> tensor<1x5x5x2x3xf32>
// CHECK-NEXT: tflite.node "TRANSPOSE" {{.*}} -> tensor<1x5x5x3x2xf32>
// CHECK-NEXT: tflite.node "RESHAPE" {{.*}} -> tensor<1x5x5x6xf32>
// CHECK-NEXT: tflite.node "DEPTHWISE_CONV_2D"
func.func @shuffle(%x: tensor<1x1x5x5xf32>) -> tensor<1x6x5x5xf32> {
  %w = nn.constant dense<1.0> : tensor<6x1x1x1xf32> : tensor<6x1x1x1xf32>
  %0 = nn.conv2d %x, %w : (tensor<1x1x5x5xf32>, tensor<6x1x1x1xf32>) -> tensor<1x6x5x5xf32>
  %1 = nn.reshape %0 shape [1, 2, 3, 5, 5] : (tensor<1x6x5x5xf32>) -> tensor<1x2x3x5x5xf32>
  %2 = nn.transpose %1 perm [0, 2, 1, 3, 4] : (tensor<1x2x3x5x5xf32>) -> tensor<1x3x2x5x5xf32>
  %3 = nn.reshape %2 shape [1, 6, 5, 5] : (tensor<1x3x2x5x5xf32>) -> tensor<1x6x5x5xf32>
  %4 = nn.conv2d %3, %w groups 6 : (tensor<1x6x5x5xf32>, tensor<6x1x1x1xf32>) -> tensor<1x6x5x5xf32>
  return %4 : tensor<1x6x5x5xf32>
}

// -----

!x = !quant.uniform<i8:f32, 0.05:3>
!y = !quant.uniform<i8:f32, 0.1:-20>

// An op that a kernel defines is its builtin, whatever that rounds.
// CHECK-LABEL: @kernel
// CHECK: tflite.node "LEAKY_RELU" (%{{.*}}) options {alpha = 1.000000e-01 : f32}
func.func @kernel(%x: tensor<?x3x!x>) -> tensor<?x3x!y> {
  %0 = nn.leaky_relu %x alpha 0.1 {nn.kernel = "litert-xnn"} : (tensor<?x3x!x>) -> tensor<?x3x!y>
  return %0 : tensor<?x3x!y>
}
