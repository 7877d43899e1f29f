// RUN: qopt-opt %s -p form-tables,dce --verify-numerics=4 | filecheck %s
// RUN: qopt-opt %s -p form-tables,dce,form-tables,dce | filecheck %s

!x = tensor<2x4x!quant.uniform<i8:f32, 0.05:3>>
!s = tensor<2x4x!quant.uniform<i8:f32, 0.008>>
!c = tensor<2x4x!quant.uniform<i8:f32, 0.016>>
!d = tensor<2x4x!quant.uniform<i8:f32, 0.02:-5>>
!st = tensor<4x2x!quant.uniform<i8:f32, 0.008>>
!ct = tensor<4x2x!quant.uniform<i8:f32, 0.016>>

// Two chains that share all that they compute.
// CHECK-LABEL: func.func @two_rescales
// CHECK-COUNT-2: nn.table %arg0
// CHECK-NOT: quant.rescale
// CHECK: return
func.func @two_rescales(%x: !x) -> (!c, !d) {
  %0 = nn.sigmoid %x : (!x) -> !s
  %1 = nn.mul %x, %0 : (!x, !s) -> !s
  %2 = quant.rescale %1 : !s to !c
  %3 = quant.rescale %1 : !s to !d
  return %2, %3 : !c, !d
}

// What they share is used besides: it is a table, and rescales stay.
// CHECK-LABEL: func.func @used_besides
// CHECK: nn.table
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: quant.rescale
func.func @used_besides(%x: !x) -> (!c, !d, !s) {
  %0 = nn.sigmoid %x : (!x) -> !s
  %2 = quant.rescale %0 : !s to !c
  %3 = quant.rescale %0 : !s to !d
  return %2, %3, %0 : !c, !d, !s
}

// A rescale goes into a table past a transpose.
// CHECK-LABEL: func.func @past_a_transpose
// CHECK: nn.table
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: return
func.func @past_a_transpose(%x: !x) -> !ct {
  %0 = nn.sigmoid %x : (!x) -> !s
  %1 = nn.transpose %0 perm [1, 0] : (!s) -> !st
  %2 = quant.rescale %1 : !st to !ct
  return %2 : !ct
}

// So does a table.
// CHECK-LABEL: func.func @table_of_a_table
// CHECK: nn.table
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: return
func.func @table_of_a_table(%x: !x) -> !ct {
  %0 = nn.sigmoid %x : (!x) -> !s
  %1 = nn.transpose %0 perm [1, 0] : (!s) -> !st
  %2 = nn.tanh %1 : (!st) -> !ct
  return %2 : !ct
}

// The codes that are moved are used besides.
// CHECK-LABEL: func.func @moved_and_used
// CHECK: nn.transpose
// CHECK-NEXT: quant.rescale
func.func @moved_and_used(%x: !x) -> (!ct, !st) {
  %0 = nn.sigmoid %x : (!x) -> !s
  %1 = nn.transpose %0 perm [1, 0] : (!s) -> !st
  %2 = quant.rescale %1 : !st to !ct
  return %2, %1 : !ct, !st
}
