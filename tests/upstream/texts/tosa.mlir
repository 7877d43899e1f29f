tosa.variable @state = dense<-1> : tensor<2x4x8xi8>
tosa.variable @open : tensor<2x?xf32>
func.func @flow(%c: tensor<i1>, %a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %x: tensor<13x21x3xf32>) -> tensor<f32> {
  %0 = tosa.cond_if %c (%p = %a, %q = %b) : tensor<i1> (tensor<f32>, tensor<f32>) -> tensor<f32> {
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    tosa.yield %p : tensor<f32>
  } else {
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    tosa.yield %q : tensor<f32>
  }
  %1 = tosa.while_loop (%n = %i) : (tensor<i32>) -> tensor<i32> {
    %2 = tosa.greater_equal %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    tosa.yield %2 : tensor<i1>
  } do {
  ^bb0(%n: tensor<i32>):
    tosa.yield %n : tensor<i32>
  }
  %3 = tosa.maximum %x, %x {nan_mode = IGNORE} : (tensor<13x21x3xf32>, tensor<13x21x3xf32>) -> tensor<13x21x3xf32>
  %4 = tosa.reduce_max %x {axis = 0 : i32} : (tensor<13x21x3xf32>) -> tensor<1x21x3xf32>
  return %0 : tensor<f32>
}
