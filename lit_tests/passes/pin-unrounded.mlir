// RUN: qopt-opt %s --split-input-file -p pin-unrounded | filecheck %s
// RUN: qopt-opt %s --split-input-file -p "pin-unrounded,canonicalize,cse,dce,integerize,place-rescales" | filecheck %s

// Ops on f16 that ONNX Runtime computes in f32, and what they are connected to.

module attributes {quant.arithmetic = "expressed"} {
  // The scale has 11 bits, so that 7 of its steps need 14: whether they are rounded depends on the
  // relu behind. What reads the codes only is free.
  // CHECK-LABEL: func.func @rounds(
  // CHECK-NEXT: quant.dcast {{.*}} {nn.pinned}
  // CHECK-NEXT: nn.relu {{.*}} {nn.pinned}
  // CHECK-NEXT: onnx.node "Cast" {{.*}} {nn.pinned}
  // CHECK-NEXT: return
  func.func @rounds(%x: tensor<4x!quant.uniform<u8:f16, 0.0999755859375:128>>) -> tensor<4xf32> {
    %0 = quant.dcast %x : tensor<4x!quant.uniform<u8:f16, 0.0999755859375:128>> to tensor<4xf16>
    %1 = nn.relu %0 : (tensor<4xf16>) -> tensor<4xf16>
    %2 = onnx.node "Cast" (%1) attributes {to = 1 : i64} : (tensor<4xf16>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}

// -----

module attributes {quant.arithmetic = "expressed"} {
  // All codes of this scale are f16, and a maximum is one of them.
  // CHECK-LABEL: func.func @holds(
  // CHECK-NOT: nn.pinned
  // CHECK: return
  func.func @holds(%x: tensor<4x!quant.uniform<u8:f16, 0.125:128>>) -> tensor<4xf32> {
    %0 = quant.dcast %x : tensor<4x!quant.uniform<u8:f16, 0.125:128>> to tensor<4xf16>
    %1 = nn.relu %0 : (tensor<4xf16>) -> tensor<4xf16>
    %2 = onnx.node "Cast" (%1) attributes {to = 1 : i64} : (tensor<4xf16>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}

// -----

module attributes {quant.arithmetic = "expressed"} {
  // Two dequantizes and a dead op decide what is rounded, so they stay two, and it stays.
  // CHECK-LABEL: func.func @stays(
  // CHECK-COUNT-2: quant.dcast {{.*}} {nn.pinned}
  // CHECK: nn.transpose {{.*}} {nn.pinned}
  // CHECK: nn.add {{.*}} {nn.pinned}
  // CHECK-NEXT: return
  func.func @stays(%x: tensor<4x!quant.uniform<u8:f16, 0.0999755859375:128>>) -> tensor<4xf16> {
    %0 = quant.dcast %x : tensor<4x!quant.uniform<u8:f16, 0.0999755859375:128>> to tensor<4xf16>
    %1 = quant.dcast %x : tensor<4x!quant.uniform<u8:f16, 0.0999755859375:128>> to tensor<4xf16>
    %2 = nn.transpose %1 perm [0] : (tensor<4xf16>) -> tensor<4xf16>
    %3 = nn.add %0, %1 : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xf16>
    return %3 : tensor<4xf16>
  }
}

// -----

// In the reals nothing is rounded to f16.
// CHECK-LABEL: func.func @reals(
// CHECK-NOT: nn.pinned
// CHECK: return
func.func @reals(%x: tensor<4x!quant.uniform<u8:f16, 0.0999755859375:128>>) -> tensor<4xf16> {
  %0 = quant.dcast %x : tensor<4x!quant.uniform<u8:f16, 0.0999755859375:128>> to tensor<4xf16>
  %1 = nn.exp %0 : (tensor<4xf16>) -> tensor<4xf16>
  return %1 : tensor<4xf16>
}

// -----

module attributes {quant.arithmetic = "expressed"} {
  // Rounded to 11 bits or not, each number is quantized to the code that it has.
  // CHECK-LABEL: func.func @same_codes(
  // CHECK-NOT: nn.pinned
  // CHECK: return
  func.func @same_codes(%x: tensor<4x!quant.uniform<u8:f16, 0.0999755859375:128>>) -> tensor<8x!quant.uniform<u8:f16, 0.0999755859375:128>> {
    %0 = quant.dcast %x : tensor<4x!quant.uniform<u8:f16, 0.0999755859375:128>> to tensor<4xf16>
    %1 = nn.concat %0, %0 axis 0 : (tensor<4xf16>, tensor<4xf16>) -> tensor<8xf16>
    %2 = quant.qcast %1 : tensor<8xf16> to tensor<8x!quant.uniform<u8:f16, 0.0999755859375:128>>
    return %2 : tensor<8x!quant.uniform<u8:f16, 0.0999755859375:128>>
  }
}

// -----

module attributes {quant.arithmetic = "expressed"} {
  // 21 times the first scale is a tie of the second one, if it is rounded to 11 bits.
  // CHECK-LABEL: func.func @other_codes(
  // CHECK: quant.dcast {{.*}} {nn.pinned}
  // CHECK: quant.qcast {{.*}} {nn.pinned}
  func.func @other_codes(%x: tensor<4x!quant.uniform<u8:f16, 0.0999755859375:128>>) -> tensor<4x!quant.uniform<u8:f16, 0.60009765625:128>> {
    %0 = quant.dcast %x : tensor<4x!quant.uniform<u8:f16, 0.0999755859375:128>> to tensor<4xf16>
    %1 = nn.relu %0 : (tensor<4xf16>) -> tensor<4xf16>
    %2 = quant.qcast %1 : tensor<4xf16> to tensor<4x!quant.uniform<u8:f16, 0.60009765625:128>>
    return %2 : tensor<4x!quant.uniform<u8:f16, 0.60009765625:128>>
  }
}
