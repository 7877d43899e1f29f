// RUN: qopt-opt %s -p canonicalize --remarks --verify-diagnostics | filecheck %s

// A relu or relu6 after an op that requantizes does nothing where the result saturates there:
// zero on the lowest code, and for relu6 six on the highest or above it.

!x = tensor<2x4x!quant.uniform<i8:f32, 0.5:3>>
!s8 = tensor<2x4x!quant.uniform<i8:f32, 0.02:-128>>
!u8 = tensor<2x4x!quant.uniform<u8:f32, 0.02>>
!s6 = tensor<2x4x!quant.uniform<i8:f32, 0.023529411764705882:-128>>
!u6 = tensor<2x4x!quant.uniform<u8:f32, 0.023529411764705882>>
!pa = tensor<2x4x!quant.uniform<i8:f32:1, {0.023529411764705882:-128, 0.01:-128, 0.02:-128, 0.015:-128}>>
!pu = tensor<2x4x!quant.uniform<u8:f32:1, {0.023529411764705882, 0.01, 0.02, 0.015}>>
!n8 = tensor<2x4x!quant.uniform<i8<-127:127>:f32, 0.02:-127>>
!nb = tensor<2x4x!quant.uniform<i8<-28:100>:f32, 0.046875:-28>>
!w = tensor<4x4x!quant.uniform<i8<-127:127>:f32, 0.1>>
!u6f = tensor<2x4x!quant.uniform<u8:f32, 0.023529412224888802>>
!acts = tensor<2x4x!quant.uniform<u8:f32:1, {0.023529411764705882, 0.05, 0.02, 0.015}>>

// CHECK-LABEL: func.func @relu_i8(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale
// CHECK-NEXT: return [[V0]]
func.func @relu_i8(%x: !x) -> !s8 {
  %0 = quant.rescale %x : !x to !s8
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %1 = nn.relu %0 : (!s8) -> !s8
  func.return %1 : !s8
}

// CHECK-LABEL: func.func @relu_u8(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add
// CHECK-NEXT: return [[V0]]
func.func @relu_u8(%x: !x) -> !u8 {
  %0 = nn.add %x, %x : (!x, !x) -> !u8
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %1 = nn.relu %0 : (!u8) -> !u8
  func.return %1 : !u8
}

// CHECK-LABEL: func.func @relu_narrow(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.fully_connected
// CHECK-NEXT: return [[V0]]
func.func @relu_narrow(%x: !x, %w: !w) -> !n8 {
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !n8
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %1 = nn.relu %0 : (!n8) -> !n8
  func.return %1 : !n8
}

// CHECK-LABEL: func.func @relu_per_axis(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale
// CHECK-NEXT: return [[V0]]
func.func @relu_per_axis(%x: !x) -> !pu {
  %0 = quant.rescale %x : !x to !pu
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %1 = nn.relu %0 : (!pu) -> !pu
  func.return %1 : !pu
}

// CHECK-LABEL: func.func @relu6_i8(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.fully_connected
// CHECK-NEXT: return [[V0]]
func.func @relu6_i8(%x: !x, %w: !w) -> !s6 {
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !s6
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %1 = nn.clip %0 min 0.0 max 6.0 : (!s6) -> !s6
  func.return %1 : !s6
}

// CHECK-LABEL: func.func @relu6_u8(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale
// CHECK-NEXT: return [[V0]]
func.func @relu6_u8(%x: !x) -> !u6 {
  %0 = quant.rescale %x : !x to !u6
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %1 = nn.clip %0 min 0.0 max 6.0 : (!u6) -> !u6
  func.return %1 : !u6
}

// 6 / 255 in f32 is a little more: the highest code is nearest to 6 all the same.
// CHECK-LABEL: func.func @relu6_f32_scale(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.add
// CHECK-NEXT: return [[V0]]
func.func @relu6_f32_scale(%x: !x) -> !u6f {
  %0 = nn.add %x, %x : (!x, !x) -> !u6f
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %1 = nn.clip %0 min 0.0 max 6.0 : (!u6f) -> !u6f
  func.return %1 : !u6f
}

// CHECK-LABEL: func.func @relu6_narrow(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.fully_connected
// CHECK-NEXT: return [[V0]]
func.func @relu6_narrow(%x: !x, %w: !w) -> !nb {
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !nb
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %1 = nn.clip %0 min 0.0 max 6.0 : (!nb) -> !nb
  func.return %1 : !nb
}

// CHECK-LABEL: func.func @relu6_per_axis(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale
// CHECK-NEXT: return [[V0]]
func.func @relu6_per_axis(%x: !x) -> !pa {
  %0 = quant.rescale %x : !x to !pa
  // expected-remark@+1 {{redundant-clamp fired, exact}}
  %1 = nn.clip %0 min 0.0 max 6.0 : (!pa) -> !pa
  func.return %1 : !pa
}

// One channel goes to 12.75.
// CHECK-LABEL: func.func @relu6_acts_on_a_channel(
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.clip [[V0]] min 0.0 max 6.0
// CHECK-NEXT: return [[V1]]
func.func @relu6_acts_on_a_channel(%x: !x) -> !acts {
  %0 = quant.rescale %x : !x to !acts
  %1 = nn.clip %0 min 0.0 max 6.0 : (!acts) -> !acts
  func.return %1 : !acts
}
