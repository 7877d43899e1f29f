// RUN: qopt-opt %s -p 'fold-rescale{boundary=minimize-conversions numerics=relaxed},dce' | filecheck %s
// RUN: qopt-opt %s -p 'move-casts{boundary=minimize-conversions},fold-rescale{boundary=minimize-conversions numerics=relaxed},dce' | filecheck %s
// RUN: qopt-opt %s -p 'fold-rescale{boundary=minimize-conversions numerics=saturation},dce' | filecheck %s --check-prefix=KEPT
// RUN: qopt-opt %s -p 'fold-rescale{numerics=relaxed},dce' | filecheck %s --check-prefix=KEPT

// A quantize and a dequantize go together, whatever stands between them that commutes with both, if
// integer ops may become float ops.

!q = !quant.uniform<i8:f32, 0.5:3>
!r = !quant.uniform<i8:f32, 0.25>

// KEPT-COUNT-1: quant.qcast
// KEPT-COUNT-1: quant.dcast
// CHECK-LABEL: func.func @moved
// CHECK-NEXT: nn.exp
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: nn.log
func.func @moved(%x: tensor<2x4xf32>) -> tensor<8xf32> {
  %a = nn.exp %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %0 = quant.qcast %a : tensor<2x4xf32> to tensor<2x4x!q>
  %1 = nn.reshape %0 : (tensor<2x4x!q>) -> tensor<8x!q>
  %2 = quant.dcast %1 : tensor<8x!q> to tensor<8xf32>
  %b = nn.log %2 : (tensor<8xf32>) -> tensor<8xf32>
  return %b : tensor<8xf32>
}

// CHECK-LABEL: func.func @several
// CHECK-NEXT: nn.relu
// CHECK-NEXT: nn.concat
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: return
func.func @several(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>) -> tensor<4x4xf32> {
  %0 = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!q>
  %1 = nn.relu %0 : (tensor<2x4x!q>) -> tensor<2x4x!q>
  %2 = quant.qcast %y : tensor<2x4xf32> to tensor<2x4x!q>
  %3 = nn.concat %1, %2 axis 0 : (tensor<2x4x!q>, tensor<2x4x!q>) -> tensor<4x4x!q>
  %4 = quant.rescale %3 : tensor<4x4x!q> to tensor<4x4x!r>
  %5 = nn.transpose %4 perm [1, 0] : (tensor<4x4x!r>) -> tensor<4x4x!r>
  %6 = quant.dcast %5 : tensor<4x4x!r> to tensor<4x4xf32>
  return %6 : tensor<4x4xf32>
}

// The codes are used as such: the op that makes them stays.
// CHECK-LABEL: func.func @also_codes
// CHECK: quant.qcast
// CHECK: quant.dcast
func.func @also_codes(%x: tensor<2x4xf32>) -> (tensor<8xf32>, tensor<8x!q>) {
  %0 = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!q>
  %1 = nn.reshape %0 : (tensor<2x4x!q>) -> tensor<8x!q>
  %2 = quant.dcast %1 : tensor<8x!q> to tensor<8xf32>
  return %2, %1 : tensor<8xf32>, tensor<8x!q>
}

// One operand was never a float.
// CHECK-LABEL: func.func @codes_and_floats
// CHECK: quant.qcast
// CHECK: quant.dcast
func.func @codes_and_floats(%x: tensor<2x4xf32>, %y: tensor<2x4x!q>) -> tensor<4x4xf32> {
  %0 = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!q>
  %1 = nn.concat %0, %y axis 0 : (tensor<2x4x!q>, tensor<2x4x!q>) -> tensor<4x4x!q>
  %2 = quant.dcast %1 : tensor<4x4x!q> to tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
