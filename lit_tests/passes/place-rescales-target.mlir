// RUN: qopt-opt %s -p place-rescales --target integer | filecheck %s
// RUN: qopt-opt %s -p place-rescales --target integer --remarks 2>&1 | filecheck --check-prefix=REMARK %s

// This target has no u8 tensors, so a rescale to or from them costs more than any other.

!a = tensor<2x8x!quant.uniform<i8:f32, 0.5:3>>
!u = tensor<2x8x!quant.uniform<u8:f32, 0.5:131>>
!ur = tensor<4x4x!quant.uniform<u8:f32, 0.5:131>>
!r = tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>

// Two that are refused become none.
// CHECK-LABEL: func.func @gone(
// CHECK-NEXT: nn.reshape %{{.*}} : (tensor<2x8x!quant.uniform<i8:f32
// CHECK-NEXT: return
func.func @gone(%x: !a) -> !r {
  %0 = quant.rescale %x : !a to !u
  %1 = nn.reshape %0 shape [4, 4] : (!u) -> !ur
  %2 = quant.rescale %1 : !ur to !r
  func.return %2 : !r
}

// One at the interface stays, and is named; the cost is a number.
// CHECK-LABEL: func.func @stays(
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: return
func.func @stays(%x: !u) -> !r {
  %0 = quant.rescale %x : !u to !a
  %1 = nn.reshape %0 shape [4, 4] : (!a) -> !r
  func.return %1 : !r
}

// REMARK: [placement] cost 0 -> 0 elements x price, lower bound 0, gap 0.0%
// REMARK: remark: 'quant.rescale' [refused-op] integer: has no u8 tensors
