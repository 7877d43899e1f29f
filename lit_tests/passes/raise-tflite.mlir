// RUN: qopt-opt %s -p raise-tflite,dce --remarks=%t | filecheck %s
// RUN: filecheck %s --check-prefix=WHY --input-file=%t
// RUN: qopt-opt %s -p 'raise-tflite{kernels=litert-opt},dce' | filecheck %s --check-prefix=OPT
// RUN: qopt-opt %s -p 'raise-tflite{kernels=litert-ref},dce' | filecheck %s --check-prefix=REF

!x = !quant.uniform<i8:f32, 0.5:-3>
!w = !quant.uniform<i8:f32:0, {0.25, 0.125}>
!b = !quant.uniform<i32:f32:0, {0.125, 0.0625}>
!y = !quant.uniform<i8:f32, 1.0:5>

// Weights [out, rows, columns, in] are read as [out, in, rows, columns], with their scales; the odd
// element of SAME lies behind. The fused activation clamps codes: 5 is 0, 11 is 6.
// CHECK: module attributes {quant.arithmetic = "expressed"}
// CHECK-LABEL: @convolution
// CHECK: nn.constant dense<[100, -100]> {{.*}} : tensor<2x!quant.uniform<i32:f32:0, {1.250000e-01,6.250000e-02}>>
// CHECK: [[X:%[0-9]+]] = nn.reshape %arg0
// CHECK: nn.constant {{.*}} {nn.key = "weight"} : tensor<2x1x2x2x!quant.uniform<i8:f32:0, {2.500000e-01,1.250000e-01}>>
// CHECK: [[Y:%[0-9]+]] = nn.conv2d [[X]], {{.*}} pads [0, 0, 1, 1] {nn.kernel = "litert-xnn"}
// CHECK-NEXT: [[C:%[0-9]+]] = nn.clip [[Y]] min 0.0 max 6.0 {nn.key = "y"}
// CHECK-NEXT: nn.transpose [[C]] perm [0, 2, 3, 1]
// CHECK-NEXT: return
// OPT-LABEL: @convolution
// OPT: nn.conv2d {{.*}} {nn.kernel = "litert-opt"
// REF-LABEL: @convolution
// REF: nn.conv2d {{.*}} {nn.kernel = "litert-ref"}
func.func @convolution(%x: tensor<1x4x4x1x!x>) -> tensor<1x4x4x2x!y> {
  %w = nn.constant dense<[[[[1], [2]], [[3], [4]]], [[[5], [6]], [[7], [8]]]]> : tensor<2x2x2x1xi8> {nn.key = "weight"} : tensor<2x2x2x1x!w>
  %b = nn.constant dense<[100, -100]> : tensor<2xi32> : tensor<2x!b>
  %y = tflite.node "CONV_2D" (%x, %w, %b) options {padding = "SAME", stride_w = 1 : i32, stride_h = 1 : i32, fused_activation_function = "RELU6"} {nn.key = "y"} : (tensor<1x4x4x1x!x>, tensor<2x2x2x1x!w>, tensor<2x!b>) -> tensor<1x4x4x2x!y>
  return %y : tensor<1x4x4x2x!y>
}

// Each channel is a group: [1, rows, columns, channels] are [channels, 1, rows, columns].
// CHECK-LABEL: @depthwise
// CHECK: nn.conv2d {{.*}} groups 2 {{.*}} tensor<4x1x1x1xf32>
// CHECK-NEXT: nn.relu
func.func @depthwise(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x4x4xf32> {
  %w = nn.constant dense<[[[[1.0, 2.0, 3.0, 4.0]]]]> : tensor<1x1x1x4xf32> : tensor<1x1x1x4xf32>
  %y = tflite.node "DEPTHWISE_CONV_2D" (%x, %w) options {padding = "VALID", stride_w = 1 : i32, stride_h = 1 : i32, depth_multiplier = 2 : i32, fused_activation_function = "RELU"} : (tensor<1x4x4x2xf32>, tensor<1x1x1x4xf32>) -> tensor<1x4x4x4xf32>
  return %y : tensor<1x4x4x4xf32>
}

// Values keep their order: between two pools, and through a transpose and a reshape that merges
// rows and columns, nothing is turned.
// CHECK-LABEL: @orders
// CHECK: nn.transpose %arg0 perm [0, 3, 1, 2]
// CHECK-NEXT: nn.max_pool2d
// CHECK-NEXT: nn.add
// CHECK-NEXT: nn.reshape {{.*}} -> tensor<1x8x4xf32>
// CHECK-NEXT: return
func.func @orders(%x: tensor<1x4x4x8xf32>) -> tensor<1x8x4xf32> {
  %perm = nn.constant dense<[0, 2, 1]> : tensor<3xi32> : tensor<3xi32>
  %shape = nn.constant dense<[1, 4, 8]> : tensor<3xi32> : tensor<3xi32>
  %0 = tflite.node "MAX_POOL_2D" (%x) options {padding = "VALID", stride_w = 2 : i32, stride_h = 2 : i32, filter_width = 2 : i32, filter_height = 2 : i32} : (tensor<1x4x4x8xf32>) -> tensor<1x2x2x8xf32>
  %1 = tflite.node "ADD" (%0, %0) : (tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>) -> tensor<1x2x2x8xf32>
  %2 = tflite.node "RESHAPE" (%1, %shape) : (tensor<1x2x2x8xf32>, tensor<3xi32>) -> tensor<1x4x8xf32>
  %3 = tflite.node "TRANSPOSE" (%2, %perm) : (tensor<1x4x8xf32>, tensor<3xi32>) -> tensor<1x8x4xf32>
  return %3 : tensor<1x8x4xf32>
}

// QUANTIZE of codes: XNNPACK has 8 bits of the multiplier, the reference kernels 31.
// CHECK-LABEL: @requantize
// CHECK: quant.rescale %arg0 rounding half_up multiplier [128] shift [8]
// REF-LABEL: @requantize
// REF: quant.rescale %arg0 rounding gemmlowp multiplier [1073741824] shift [31]
func.func @requantize(%x: tensor<4x!x>) -> tensor<4x!y> {
  %y = tflite.node "QUANTIZE" (%x) : (tensor<4x!x>) -> tensor<4x!y>
  return %y : tensor<4x!y>
}

// A kernel that copies codes does not read the qparams of its result.
// CHECK-LABEL: @copied
// CHECK: [[C:%[0-9]+]] = nn.reshape %arg0
// CHECK-NEXT: quant.scast [[C]]
// CHECK-NEXT: quant.scast
// CHECK-NEXT: return
// WHY: "code": "qparams-ignored"
func.func @copied(%x: tensor<4x!x>) -> tensor<2x2x!y> {
  %shape = nn.constant dense<[2, 2]> : tensor<2xi32> : tensor<2xi32>
  %y = tflite.node "RESHAPE" (%x, %shape) : (tensor<4x!x>, tensor<2xi32>) -> tensor<2x2x!y>
  return %y : tensor<2x2x!y>
}

// Extents that only a run knows, and a value that is used twice.
// CHECK-LABEL: @dynamic
// CHECK: nn.sigmoid
// CHECK-NEXT: nn.mul
// CHECK-NEXT: nn.reshape {{.*}} : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
func.func @dynamic(%x: tensor<?x2x2xf32>) -> tensor<?x4xf32> {
  %shape = nn.constant dense<[-1, 4]> : tensor<2xi32> : tensor<2xi32>
  %0 = tflite.node "LOGISTIC" (%x) : (tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %1 = tflite.node "MUL" (%x, %0) : (tensor<?x2x2xf32>, tensor<?x2x2xf32>) -> tensor<?x2x2xf32>
  %2 = tflite.node "RESHAPE" (%1, %shape) : (tensor<?x2x2xf32>, tensor<2xi32>) -> tensor<?x4xf32>
  return %2 : tensor<?x4xf32>
}

// What has no counterpart stays, as the file lays it out; what is around it is raised.
// CHECK-LABEL: @kept
// CHECK: nn.relu
// CHECK-NEXT: nn.transpose {{.*}} perm [0, 2, 3, 1]
// CHECK-NEXT: [[K:%[0-9]+]] = tflite.node "Mystery"
// CHECK-NEXT: nn.transpose [[K]] perm [0, 3, 1, 2]
// CHECK-NEXT: nn.max_pool2d
// WHY: "op": "tflite.Mystery"
// WHY: "code": "no-counterpart"
func.func @kept(%x: tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = nn.constant dense<[[[[1.0, 2.0]]], [[[3.0, 4.0]]]]> : tensor<2x1x1x2xf32> : tensor<2x1x1x2xf32>
  %0 = tflite.node "CONV_2D" (%x, %w) options {padding = "SAME", stride_w = 1 : i32, stride_h = 1 : i32, fused_activation_function = "RELU"} : (tensor<1x4x4x2xf32>, tensor<2x1x1x2xf32>) -> tensor<1x4x4x2xf32>
  %1 = tflite.node "Mystery" (%0) custom "00ff" : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  %2 = tflite.node "MAX_POOL_2D" (%1) options {padding = "VALID", stride_w = 2 : i32, stride_h = 2 : i32, filter_width = 2 : i32, filter_height = 2 : i32} : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
  return %2 : tensor<1x2x2x2xf32>
}
