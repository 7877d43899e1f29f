// RUN: qopt-opt %s -p convert-rescale{numerics=bounded} | filecheck %s --check-prefix=FIXED
// RUN: qopt-opt %s -p 'convert-rescale{bits=16 rounding=half_up numerics=bounded}' | filecheck %s --check-prefix=SHORT
// RUN: qopt-opt %s -p 'convert-rescale{numerics=bounded},convert-rescale{form=real numerics=bounded}' | filecheck %s --check-prefix=REAL
// RUN: qopt-opt %s -p convert-rescale --remarks --verify-diagnostics -o /dev/null
// RUN: not qopt-opt %s -p 'convert-rescale{bits=40}' 2>&1 | filecheck %s --check-prefix=BITS

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<u8:f32, 0.7:130>
!c = !quant.uniform<i8:f32:1, {0.25:3,0.125}>
!d = !quant.uniform<i8:f32, 1.0>
!e = !quant.uniform<i8:f32, 1.0e-30>
!g = !quant.uniform<i8:f32, 3.0>

// BITS: error: convert-rescale: bits must be 2 to 32, not 40

// FIXED-LABEL: func.func @tensor
// SHORT-LABEL: func.func @tensor
// REAL-LABEL: func.func @tensor
func.func @tensor(%x: tensor<4x!a>) -> tensor<4x!b> {
  // FIXED: quant.rescale %{{.*}} multiplier [1533916891] shift [31] :
  // SHORT: quant.rescale %{{.*}} rounding half_up multiplier [23406] shift [15] :
  // REAL: quant.rescale %{{[a-z0-9]+}} : tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
  // expected-remark@+1 {{fix-rescale fired, exact}}
  %0 = quant.rescale %x : tensor<4x!a> to tensor<4x!b>
  return %0 : tensor<4x!b>
}

// One pair per channel.
// FIXED-LABEL: func.func @axis
func.func @axis(%x: tensor<4x2x!a>) -> tensor<4x2x!c> {
  // FIXED: multiplier [1073741824, 1073741824] shift [29, 28] :
  // expected-remark@+1 {{fix-rescale fired, exact}}
  %0 = quant.rescale %x : tensor<4x2x!a> to tensor<4x2x!c>
  return %0 : tensor<4x2x!c>
}

// gemmlowp has no real form: half_away is the nearest.
// REAL-LABEL: func.func @gemmlowp
func.func @gemmlowp(%x: tensor<4x!a>) -> tensor<4x!d> {
  // REAL: quant.rescale %{{.*}} rounding half_away : tensor
  %0 = quant.rescale %x rounding gemmlowp multiplier [1073741824] shift [31] : tensor<4x!a> to tensor<4x!d>
  return %0 : tensor<4x!d>
}

// A sixth has no finite binary form, and three codes of four are ties of it somewhere.
func.func @sixth(%x: tensor<4x!a>) -> tensor<4x!g> {
  // expected-remark@+1 {{fix-rescale refused [numerics]: would be ties}}
  %0 = quant.rescale %x : tensor<4x!a> to tensor<4x!g>
  return %0 : tensor<4x!g>
}

// FIXED-LABEL: func.func @out_of_range
func.func @out_of_range(%x: tensor<4x!a>) -> tensor<4x!e> {
  // FIXED: quant.rescale %{{[a-z0-9]+}} : tensor
  // expected-remark@+1 {{fix-rescale refused [range]: a ratio of 5e+29 needs a shift below 2 with a 32-bit multiplier}}
  %0 = quant.rescale %x : tensor<4x!a> to tensor<4x!e>
  return %0 : tensor<4x!e>
}

// Other grids, and what does not round real numbers.
// FIXED-LABEL: func.func @stay_real(
// FIXED-NEXT: quant.rescale %{{[a-z0-9]+}} :
// FIXED-NEXT: quant.rescale %{{[a-z0-9]+}} rounding gemmlowp :
func.func @stay_real(%x: tensor<2x4x!quant.uniform<i8:f32:0, {0.5:3, 0.25:1}>>, %y: tensor<2x4x!quant.uniform<i8:f32, 0.5>>) -> (tensor<2x4x!quant.uniform<i8:f32:1, {0.5, 0.25, 1.0, 2.0}>>, tensor<2x4x!quant.uniform<i8:f32, 0.75>>) {
  // expected-remark@+1 {{fix-rescale refused [grid]: the two encodings lie on different grids}}
  %0 = quant.rescale %x : tensor<2x4x!quant.uniform<i8:f32:0, {0.5:3, 0.25:1}>> to tensor<2x4x!quant.uniform<i8:f32:1, {0.5, 0.25, 1.0, 2.0}>>
  // expected-remark@+1 {{fix-rescale refused [rounding]: gemmlowp does not round real numbers}}
  %1 = quant.rescale %y rounding gemmlowp : tensor<2x4x!quant.uniform<i8:f32, 0.5>> to tensor<2x4x!quant.uniform<i8:f32, 0.75>>
  func.return %0, %1 : tensor<2x4x!quant.uniform<i8:f32:1, {0.5, 0.25, 1.0, 2.0}>>, tensor<2x4x!quant.uniform<i8:f32, 0.75>>
}
