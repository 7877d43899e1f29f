// RUN: qopt-opt %s -p normalize-quant-types | filecheck %s
// RUN: qopt-opt %s -p normalize-quant-types | qopt-opt -p normalize-quant-types | filecheck %s

// One pair.
// CHECK: @one(tensor<4x8x!quant.uniform<i8:f32, 2.000000e+00:3>>)
func.func private @one(tensor<4x8x!quant.uniform<i8:f32:{0:4, 1:8}, {{2.0:3}}>>)

// A bare type, and one in an attribute.
// CHECK: @bare(!quant.uniform<i8:f32, 2.000000e+00>) attributes {t = tensor<?x!quant.uniform<i8:f32, 3.000000e+00>>}
func.func private @bare(!quant.uniform<i8:f32:{}, {{2.0}}>) attributes {t = tensor<?x!quant.uniform<i8:f32:{}, {3.0}>>}

// Blocks of one index.
// CHECK: @axis(tensor<?x2x!quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00:5}>>)
func.func private @axis(tensor<?x2x!quant.uniform<i8:f32:{1:1}, {{2.0, 3.0:5}}>>)

// Blocks of four indices stay: upstream makes this per axis with two scales of eight.
// CHECK-LABEL: func.func @wide
// CHECK-SAME: tensor<4x8x!quant.uniform<i8:f32:{1:4}, {{[{][{]}}2.000000e+00, 3.000000e+00}}>>
func.func @wide(%x: tensor<4x8x!quant.uniform<i8:f32:{1:4}, {{2.0, 3.0}}>>) -> tensor<4x8xf32> {
  %0 = quant.dcast %x : tensor<4x8x!quant.uniform<i8:f32:{1:4}, {{2.0, 3.0}}>> to tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Equal pairs along one dimension.
// CHECK-LABEL: func.func @equal
// CHECK-SAME: tensor<4x2x!quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00}>>
func.func @equal(%x: tensor<4x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{2.0, 3.0}, {2.0, 3.0}}>>) -> tensor<4x2xf32> {
  // CHECK: quant.dcast %{{.*}} : tensor<4x2x!quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00}>> to tensor<4x2xf32>
  %0 = quant.dcast %x : tensor<4x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{2.0, 3.0}, {2.0, 3.0}}>> to tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// Other attributes stay as they are: the integer 0 is not the boolean false before it.
// CHECK-LABEL: func.func @integers
func.func @integers(%x: tensor<2x3xf32>) -> (tensor<2xi64>, tensor<2x3xf32>) {
  // CHECK: nn.arg_max %{{.*}} axis 1 keepdims false
  // CHECK: nn.softmax %{{.*}} axis 0
  %0 = nn.arg_max %x axis 1 keepdims false : (tensor<2x3xf32>) -> tensor<2xi64>
  %1 = nn.softmax %x axis 0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<2xi64>, tensor<2x3xf32>
}
