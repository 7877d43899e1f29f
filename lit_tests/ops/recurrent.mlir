// RUN: qopt-opt %s | qopt-opt | filecheck %s

// CHECK: @lstm
func.func @lstm(%x: tensor<5x?x3xf32>, %w: tensor<2x24x3xf32>, %r: tensor<2x24x6xf32>, %b: tensor<2x48xf32>) -> tensor<5x2x?x6xf32> {
  // CHECK: nn.lstm {{.*}} direction bidirectional : (
  %0 = nn.lstm %x, %w, %r, %b direction bidirectional : (tensor<5x?x3xf32>, tensor<2x24x3xf32>, tensor<2x24x6xf32>, tensor<2x48xf32>) -> tensor<5x2x?x6xf32>
  return %0 : tensor<5x2x?x6xf32>
}

// CHECK: @gru
func.func @gru(%x: tensor<5x2x3x!quant.uniform<i8:f32, 0.1>>, %w: tensor<1x18x3x!quant.uniform<i8:f32, 0.1>>, %r: tensor<1x18x6x!quant.uniform<i8:f32, 0.1>>, %b: tensor<1x36xf32>, %h: tensor<1x2x6xf32>) -> tensor<5x1x2x6x!quant.uniform<i8:f32, 0.1>> {
  // CHECK: nn.gru {{.*}} linear_before_reset true : (
  %0 = nn.gru %x, %w, %r, %b, %h linear_before_reset true : (tensor<5x2x3x!quant.uniform<i8:f32, 0.1>>, tensor<1x18x3x!quant.uniform<i8:f32, 0.1>>, tensor<1x18x6x!quant.uniform<i8:f32, 0.1>>, tensor<1x36xf32>, tensor<1x2x6xf32>) -> tensor<5x1x2x6x!quant.uniform<i8:f32, 0.1>>
  return %0 : tensor<5x1x2x6x!quant.uniform<i8:f32, 0.1>>
}

// A state for all of the batch, lengths, and both last states.
// CHECK: @states
func.func @states(%x: tensor<5x2x3xf32>, %w: tensor<1x24x3xf32>, %r: tensor<1x24x6xf32>, %b: tensor<1x48xf32>, %h: tensor<1x1x6xf32>, %c: tensor<1x2x6xf32>, %p: tensor<1x18xf32>, %l: tensor<2xi32>) -> (tensor<1x2x6xf32>, tensor<1x2x6xf32>) {
  // CHECK: nn.lstm {{.*}} last_states 2 : (
  %0, %1, %2 = nn.lstm %x, %w, %r, %b, %h, %c, %p, %l last_states 2 : (tensor<5x2x3xf32>, tensor<1x24x3xf32>, tensor<1x24x6xf32>, tensor<1x48xf32>, tensor<1x1x6xf32>, tensor<1x2x6xf32>, tensor<1x18xf32>, tensor<2xi32>) -> (tensor<5x1x2x6xf32>, tensor<1x2x6xf32>, tensor<1x2x6xf32>)
  return %1, %2 : tensor<1x2x6xf32>, tensor<1x2x6xf32>
}
