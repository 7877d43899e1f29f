// RUN: qopt-opt %s -p convert-nn-to-tflite --split-input-file --verify-diagnostics

!x = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<2x4x!quant.uniform<i8:f32, 0.25>>

func.func @half_up(%y: !x) -> !y {
  // expected-error @+1 {{'nn.leaky_relu' cannot become TFLite: no kernel gives its codes}}
  %0 = nn.leaky_relu %y alpha 0.1 : (!x) -> !y
  func.return %0 : !y
}

// -----

!x = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<2x4x!quant.uniform<i8:f32, 1.0:2>>

// Every second sum is a tie, and the kernel rounds it up.
func.func @ties(%x: !x) -> !y {
  // expected-error @+1 {{'nn.add' cannot become TFLite: ADD of codes is a step off for some pairs}}
  %0 = nn.add %x, %x : (!x, !x) -> !y
  func.return %0 : !y
}

// -----

!x = tensor<1x1x4x4x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<1x1x3x3x!quant.uniform<u8:f32, 0.25:3>>
!y = tensor<1x1x2x2x!quant.uniform<i8:f32, 0.5:3>>

func.func @weights(%x: !x) -> !y {
  %w = nn.constant dense<-1> : tensor<1x1x3x3xi8> : !w
  // expected-error @+1 {{'nn.conv2d' cannot become TFLite: its weight has a zero point, and no signed codes without one}}
  %0 = nn.conv2d %x, %w : (!x, !w) -> !y
  func.return %0 : !y
}

// -----

// expected-error @+1 {{'func.func' cannot become TFLite: it means f16 and not f32}}
func.func @half(%x: tensor<4x!quant.uniform<i8:f16, 0.5>>) -> tensor<4x!quant.uniform<i8:f16, 0.5>> {
  func.return %x : tensor<4x!quant.uniform<i8:f16, 0.5>>
}

// -----

// What comes after an op that is refused has codes without a type; a border of them is their lowest.
func.func @after(%x: tensor<1x2x4x4x!quant.uniform<i16:f32, 0.25:3>>) -> tensor<1x2x5x4x!quant.uniform<i8:f32, 0.1>> {
  // expected-error @+1 {{'quant.rescale' cannot become TFLite: no kernel rescales i16 exactly}}
  %0 = quant.rescale %x rounding half_up : tensor<1x2x4x4x!quant.uniform<i16:f32, 0.25:3>> to tensor<1x2x4x4x!quant.uniform<i8:f32, 0.1>>
  %1 = nn.max_pool2d %0 kernel [2, 1] pads [1, 0, 1, 0] : (tensor<1x2x4x4x!quant.uniform<i8:f32, 0.1>>) -> tensor<1x2x5x4x!quant.uniform<i8:f32, 0.1>>
  func.return %1 : tensor<1x2x5x4x!quant.uniform<i8:f32, 0.1>>
}
