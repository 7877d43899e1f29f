// RUN: qopt-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{illegal storage type size: 33}}
func.func private @width(!quant.any<i33>)

// -----

// expected-error@+1 {{illegal storage type maximum: 128}}
func.func private @bounds(!quant.uniform<i8<-128:128>:f32, 1.0>)

// -----

// expected-error@+2 {{unexpected decimal integer literal for a floating point value}}
// expected-note@+1 {{add a trailing dot to make the literal a float}}
func.func private @integer_scale(!quant.uniform<i8:f32, 1>)

// -----

// expected-error@+1 {{scale 0.000000e+00 out of expressed type range [1.401298e-45, 3.402823e+38]}}
func.func private @zero_scale(!quant.uniform<i8:f32, 0.0>)

// -----

// expected-error@+1 {{scale NAN out of expressed type range}}
func.func private @nan_scale(!quant.uniform<i8:f32, 0x7FF8000000000000>)

// -----

// expected-error@+1 {{illegal quantized dimension: -1}}
func.func private @axis(!quant.uniform<i8:f32:-1, {2.0}>)

// -----

// expected-error@+1 {{illegal block size: 0}}
func.func private @block(!quant.uniform<i8:f32:{0:0}, {2.0}>)

// -----

// expected-error@+1 {{ranks are not consistent between elements}}
func.func private @ragged(!quant.uniform<i8:f32:{0:1, 1:2}, {{2.0, 3.0}, 4.0}>)

// -----

// expected-error@+1 {{zero point 300 does not fit storage type}}
func.func private @block_zero_point(!quant.uniform<i8:f32:{0:1}, {1.0:300}>)

// -----

func.func @expressed(%a: f16) {
  // expected-error@+1 {{expressed type in quantized type expected to match float type}}
  %0 = quant.qcast %a : f16 to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

func.func @operand(%a: i32) {
  // expected-error@+1 {{'quant.qcast' op operand #0 must be scalar or tensor of floating-point, but got 'i32'}}
  %0 = quant.qcast %a : i32 to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

func.func @shape(%a: tensor<4xf32>) {
  // expected-error@+1 {{input and result are both scalars or both tensors with matching shape}}
  %0 = quant.qcast %a : tensor<4xf32> to tensor<?x!quant.uniform<i8:f32, 2.0>>
  return
}

// -----

func.func @storage(%a: !quant.uniform<i8:f32, 2.0>) {
  // expected-error@+1 {{storage type in quantized type expected to match integer type}}
  %0 = quant.scast %a : !quant.uniform<i8:f32, 2.0> to i16
  return
}

// -----

func.func @count(%a: tensor<4x3xi8>) {
  // expected-error@+1 {{quantized dimension size does not match number of scales}}
  %0 = quant.scast %a : tensor<4x3xi8> to tensor<4x3x!quant.uniform<i8:f32:1, {2.0, 3.0}>>
  return
}

// -----

func.func @rescale_of_float(%a: f32) {
  // expected-error@+1 {{'quant.rescale' op operand #0 must be scalar or tensor of uniform quantized type, but got 'f32'}}
  %0 = quant.rescale %a : f32 to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

func.func @half_fixed_point(%a: !quant.uniform<i8:f32, 2.0>) {
  // expected-error@+1 {{'quant.rescale' op multiplier and shift must be given together}}
  %0 = quant.rescale %a multiplier [5] : !quant.uniform<i8:f32, 2.0> to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

func.func @multiplier_count(%a: tensor<2x!quant.uniform<i8:f32:0, {2.0, 3.0}>>) {
  // expected-error@+1 {{'quant.rescale' op number of multipliers must be 1 or 2, the number of scales, but got 3}}
  %0 = quant.rescale %a multiplier [1, 2, 3] shift [1, 2, 3] : tensor<2x!quant.uniform<i8:f32:0, {2.0, 3.0}>> to tensor<2x!quant.uniform<i8:f32, 2.0>>
  return
}
