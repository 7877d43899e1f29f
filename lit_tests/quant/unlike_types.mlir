// RUN: qopt-opt %s --split-input-file --verify-diagnostics

// A message about two types tells what differs, where their texts are long or the same.
// Blocks hold scales of the expressed type; one axis, and a whole tensor, hold doubles.
!a = !quant.uniform<i8:f32:0, {0.5, 0.25, 0.1, 0.75}>
!b = !quant.uniform<i8:f32:{0:1, 1:1}, {{0.5, 0.25}, {0.1, 0.75}}>
func.func @blocks_hold_f32(%x: tensor<4x!a>) -> tensor<2x2x!b> {
  // expected-error @+1 {{'nn.reshape' op cannot carry these qparams: scales of blocks are f32 (scale [1, 0]: 0.1 != 0.10000000149011612)}}
  %0 = nn.reshape %x : (tensor<4x!a>) -> tensor<2x2x!b>
  return %0 : tensor<2x2x!b>
}

// -----

// With the scale that the blocks hold, it is a reshape.
!a = !quant.uniform<i8:f32:0, {0.5, 0.25, 0.10000000149011612, 0.75}>
!b = !quant.uniform<i8:f32:{0:1, 1:1}, {{0.5, 0.25}, {0.1, 0.75}}>
func.func @f32_along_an_axis(%x: tensor<4x!a>) -> tensor<2x2x!b> {
  %0 = nn.reshape %x : (tensor<4x!a>) -> tensor<2x2x!b>
  return %0 : tensor<2x2x!b>
}

// -----

!q = !quant.uniform<i8:f32:0, {0.5, 0.25, 1.0, 2.0}>
!r = !quant.uniform<i8:f32:0, {0.5, 0.125, 1.0, 4.0}>
func.func @which_scale(%x: tensor<4x!q>) -> tensor<4x!r> {
  // expected-error @+1 {{5.000000e-01,1.250000e-01,1.000000e+00,4.000000e+00}> (scale [1]: 0.25 != 0.125, 2 of 4 differ)}}
  %0 = nn.reshape %x : (tensor<4x!q>) -> tensor<4x!r>
  return %0 : tensor<4x!r>
}

// -----

// The text for LLVM 22 spells both storages `i8`.
func.func @storage(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4x!quant.uniform<si8:f32, 0.5>> {
  // expected-error @+1 {{returns 'tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>' (storage: i8 != si8)}}
  return %x : tensor<4x!quant.uniform<i8:f32, 0.5>>
}

// -----

func.func private @callee(tensor<4x!quant.uniform<i8:f32, 0.5:1>>)
func.func @zero_point(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error @+1 {{declares 'tensor<4x!quant.uniform<i8:f32, 5.000000e-01:1>>' (zero point: 0 != 1)}}
  func.call @callee(%x) : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> ()
  return
}

// -----

func.func @operand(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error @+1 {{previously used or defined with type tensor<4x!quant.uniform<i8:f32, 5.000000e-01>> (storage: ui8 != i8)}}
  %0 = nn.relu %x : (tensor<4x!quant.uniform<ui8:f32, 0.5>>) -> tensor<4x!quant.uniform<ui8:f32, 0.5>>
  return
}
