// RUN: qopt-opt %s --target=tosa -p 'integerize{numerics=bounded},fold-constants{dequantize=true most=4096},form-depthwise{numerics=saturation},dce' | filecheck %s

// TOSA has no floats, but a batch norm on codes with constant statistics is arithmetic at
// compile time; it becomes a depthwise convolution.

!x = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.1:3>>
!y = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.05:-7>>
!f = tensor<1x2x4x4xf32>
!s = tensor<2x!quant.uniform<i8:f32, 0.5>>

// CHECK-LABEL: func.func @constant(
// CHECK-NOT: dcast
// CHECK: nn.conv2d {{.*}} groups 2
// CHECK-NEXT: return
func.func @constant(%x: !x) -> !y {
  %scale = nn.constant dense<[2, -3]> : tensor<2xi8> : !s
  %0 = quant.dcast %x : !x to !f
  %1 = quant.dcast %scale : !s to tensor<2xf32>
  %bias = nn.constant dense<[0.5, -0.25]> : tensor<2xf32> : tensor<2xf32>
  %mean = nn.constant dense<[0.1, 0.2]> : tensor<2xf32> : tensor<2xf32>
  %var = nn.constant dense<[1.0, 4.0]> : tensor<2xf32> : tensor<2xf32>
  %2 = nn.batch_norm %0, %1, %bias, %mean, %var : (!f, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> !f
  %3 = quant.qcast %2 : !f to !y
  func.return %3 : !y
}

// Statistics that are not known stay floats, which TOSA has none of.
// CHECK-LABEL: func.func @given(
// CHECK: quant.dcast
// CHECK: nn.batch_norm
// CHECK: quant.qcast
func.func @given(%x: !x, %s: tensor<2xf32>) -> !y {
  %0 = quant.dcast %x : !x to !f
  %2 = nn.batch_norm %0, %s, %s, %s, %s : (!f, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> !f
  %3 = quant.qcast %2 : !f to !y
  func.return %3 : !y
}
