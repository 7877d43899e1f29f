// RUN: qopt-opt %s -p convert-nn-to-stablehlo --split-input-file --verify-diagnostics

!x = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<2x4x!quant.uniform<i8:f32, 0.25>>

func.func @half_up(%y: !y) -> !x {
  // expected-error @+1 {{'quant.rescale' cannot become StableHLO: it rounds half_up, and StableHLO to even}}
  %0 = quant.rescale %y rounding half_up : !y to !x
  func.return %0 : !x
}

// -----

!x = tensor<2x4x!quant.uniform<i8:f32, 0.3:3>>
func.func @reciprocal(%y: tensor<2x4xf32>) -> !x {
  // expected-error @+1 {{'quant.qcast' cannot become StableHLO: it multiplies by a reciprocal, and StableHLO divides}}
  %0 = quant.qcast %y {quant.rounding = "reciprocal"} : tensor<2x4xf32> to !x
  func.return %0 : !x
}

// -----

!x = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<2x4x!quant.uniform<i8:f32, 0.25>>
func.func @fixed(%y: !y) -> !x {
  // expected-error @+1 {{'quant.rescale' cannot become StableHLO: StableHLO has scales and no multipliers and shifts}}
  %0 = quant.rescale %y multiplier [1073741824] shift [31] : !y to !x
  func.return %0 : !x
}

// -----

// expected-error @+1 {{'func.func' cannot become StableHLO: numbers are exchanged as i8, i16, i32, not u8}}
func.func @unsigned(%x: tensor<4x!quant.uniform<u8:f32, 0.5>>) -> tensor<4x!quant.uniform<u8:f32, 0.5>> {
  %0 = nn.relu %x : (tensor<4x!quant.uniform<u8:f32, 0.5>>) -> tensor<4x!quant.uniform<u8:f32, 0.5>>
  func.return %0 : tensor<4x!quant.uniform<u8:f32, 0.5>>
}

// -----

// expected-error @+1 {{'func.func' cannot become StableHLO: numbers are exchanged as i8, i16, i32, not i4}}
func.func @narrow(%x: tensor<4x!quant.uniform<i4:f32, 0.5>>) -> tensor<4x!quant.uniform<i4:f32, 0.5>> {
  %0 = nn.relu %x : (tensor<4x!quant.uniform<i4:f32, 0.5>>) -> tensor<4x!quant.uniform<i4:f32, 0.5>>
  func.return %0 : tensor<4x!quant.uniform<i4:f32, 0.5>>
}

// -----

// expected-error @+1 {{'func.func' cannot become StableHLO: it means f16 and not f32}}
func.func @half(%x: tensor<4x!quant.uniform<i8:f16, 0.5>>) -> tensor<4x!quant.uniform<i8:f16, 0.5>> {
  func.return %x : tensor<4x!quant.uniform<i8:f16, 0.5>>
}

// -----

// expected-error @+1 {{'func.func' cannot become StableHLO: argument 0 has a dimension that is not known}}
func.func @dynamic(%x: tensor<?x!quant.uniform<i8:f32, 0.5>>) -> tensor<?x!quant.uniform<i8:f32, 0.5>> {
  func.return %x : tensor<?x!quant.uniform<i8:f32, 0.5>>
}

// -----

// expected-error @+1 {{'func.func' cannot become StableHLO: argument 0 is no ranked tensor}}
func.func @unranked(%x: tensor<*x!quant.uniform<i8:f32, 0.5>>) -> tensor<*x!quant.uniform<i8:f32, 0.5>> {
  func.return %x : tensor<*x!quant.uniform<i8:f32, 0.5>>
}

// -----

// expected-error @+1 {{'func.func' cannot become StableHLO: its parameters vary in blocks}}
func.func @blocks(%x: tensor<4x!quant.uniform<i8:f32:{0:2}, {0.5, 0.25}>>) -> tensor<4x!quant.uniform<i8:f32:{0:2}, {0.5, 0.25}>> {
  func.return %x : tensor<4x!quant.uniform<i8:f32:{0:2}, {0.5, 0.25}>>
}

// -----

!x = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<2x3x!quant.uniform<i8:f32, 0.25>>
!w = tensor<3x4x!quant.uniform<i8:f32, 0.25>>
func.func @rounds(%x: !x, %w: !w) -> !y {
  // expected-error @+1 {{'nn.fully_connected' cannot become StableHLO: it rounds its result to other integers}}
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !y
  func.return %0 : !y
}

// -----

!x = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!y = tensor<2x3x!quant.uniform<i32:f32, 0.25>>
!w = tensor<3x4x!quant.uniform<i8:f32, 0.25>>
func.func @scale(%x: !x, %w: !w) -> !y {
  // expected-error @+1 {{'nn.fully_connected' cannot become StableHLO: its sums are on another scale than its result}}
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !y
  func.return %0 : !y
}

// -----

!x = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
func.func @unknown(%x: !x) -> !x {
  // expected-error @+1 {{'nn.gelu' cannot become StableHLO: it has no form on integers}}
  %0 = nn.gelu %x : (!x) -> !x
  func.return %0 : !x
}

// -----

func.func @casts(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
  // expected-error @+1 {{'quant.qcast' cannot become StableHLO: it rounds half_away, and StableHLO to even}}
  %0 = quant.qcast %x {quant.rounding = "half_away"} : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %0 : tensor<4x!quant.uniform<i8:f32, 0.5>>
}
