// RUN: qopt-opt %s -p form-tables --remarks --verify-diagnostics | filecheck %s

// Elementwise chains on one value of few codes become lookups.

!s = !quant.uniform<i8:f32, 0.0625:-3>
!a = tensor<2x3x!quant.uniform<u2:f32, 0.5:1>>
!b = tensor<2x3x!s>
!f = tensor<2x3xf32>
!q = tensor<2x3x!quant.uniform<u2:f32, 0.25>>
!rows = tensor<2x3x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
!any = tensor<?x?x!quant.uniform<u2:f32, 0.5:1>>
!anyb = tensor<?x?x!s>

// CHECK-LABEL: func.func @swish(
// CHECK-NEXT: %[[T:.*]] = nn.constant
// CHECK-NEXT: %[[Y:.*]] = nn.table %{{.*}}, %[[T]] :
// CHECK-NEXT: return %[[Y]]
func.func @swish(%x: !a) -> !b {
  // DOC-BEFORE
  %0 = quant.dcast %x : !a to !f
  %1 = nn.sigmoid %0 : (!f) -> !f
  %2 = nn.mul %0, %1 : (!f, !f) -> !f
  // expected-remark@+1 {{chain-to-table fired, exact}}
  %3 = quant.qcast %2 : !f to !b
  // DOC-AFTER
  //   %0 = nn.constant dense<[-6, -3, 2, 9]> : tensor<4xi8> : tensor<4x!s>
  //   %3 = nn.table %x, %0 : (!a, tensor<4x!s>) -> !b
  // DOC-END
  func.return %3 : !b
}

// On codes, with constants, rescales and reading bits another way in between.
// CHECK-LABEL: func.func @on_codes(
// CHECK-NEXT: nn.constant dense<[-15, -15, -9, -3]>
// CHECK-NEXT: nn.table
// CHECK-NEXT: return
func.func @on_codes(%x: !a) -> !b {
  %c = nn.constant dense<2> : tensor<i8> : tensor<!quant.uniform<i8:f32, 0.5>>
  %0 = nn.mul %x, %c : (!a, tensor<!quant.uniform<i8:f32, 0.5>>) -> !q
  %1 = quant.scast %0 : !q to tensor<2x3xi2>
  %2 = quant.scast %1 : tensor<2x3xi2> to !a
  %3 = quant.rescale %2 : !a to !b
  %4 = nn.sub %3, %c : (!b, tensor<!quant.uniform<i8:f32, 0.5>>) -> !b
  // expected-remark@+1 {{chain-to-table fired, exact}}
  %5 = nn.elu %4 : (!b) -> !b
  func.return %5 : !b
}

// A rescale on either side of a lookup, and a lookup of a lookup.
// CHECK-LABEL: func.func @composed(
// CHECK-NEXT: nn.constant dense<[5, 5, 4, 4]> : tensor<4xi8> : tensor<4x!quant.uniform<i8:f32, 1.250000e-01>>
// CHECK-NEXT: nn.table
// CHECK-NEXT: return
func.func @composed(%x: !a) -> tensor<2x3x!quant.uniform<i8:f32, 0.125>> {
  %t = nn.constant dense<[3, 2, 1, 0]> : tensor<4xi2> : tensor<4x!quant.uniform<u2:f32, 0.25>>
  %u = nn.constant dense<[4, 5, 6, 7]> : tensor<4xi8> : tensor<4x!s>
  %0 = quant.rescale %x : !a to !q
  %1 = nn.table %0, %t : (!q, tensor<4x!quant.uniform<u2:f32, 0.25>>) -> !q
  %2 = nn.table %1, %u : (!q, tensor<4x!s>) -> !b
  // expected-remark@+1 {{chain-to-table fired, exact}}
  %3 = quant.rescale %2 : !b to tensor<2x3x!quant.uniform<i8:f32, 0.125>>
  func.return %3 : tensor<2x3x!quant.uniform<i8:f32, 0.125>>
}

// What something else uses stays, and is a lookup of its own.
// CHECK-LABEL: func.func @multi_use(
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: %[[F:.*]] = nn.exp
// CHECK-NEXT: nn.constant
// CHECK-NEXT: %[[A:.*]] = nn.table %arg0
// CHECK-NEXT: nn.constant
// CHECK-NEXT: %[[B:.*]] = nn.table %arg0
// CHECK-NEXT: return %[[F]], %[[A]], %[[B]]
func.func @multi_use(%x: !a) -> (!f, !q, !b) {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.exp %0 : (!f) -> !f
  %e = quant.qcast %1 : !f to !q
  // expected-remark@+1 {{chain-to-table fired, exact}}
  %2 = nn.log %e : (!q) -> !q
  // expected-remark@+1 {{chain-to-table fired, exact}}
  %3 = nn.tanh %2 : (!q) -> !b
  func.return %1, %2, %3 : !f, !q, !b
}

// CHECK-LABEL: func.func @unknown_extents(
// CHECK: nn.table %arg0, %{{.*}} -> tensor<?x?x
func.func @unknown_extents(%x: !any) -> !anyb {
  // expected-remark@+1 {{chain-to-table fired, exact}}
  %0 = nn.gelu %x : (!any) -> !anyb
  func.return %0 : !anyb
}

// A constant that might broadcast x is part of no chain.
// CHECK-LABEL: func.func @broadcast(
// CHECK: nn.add
func.func @broadcast(%x: !any) -> !anyb {
  %c = nn.constant dense<2> : tensor<2x1xi8> : tensor<2x1x!s>
  %0 = nn.add %x, %c : (!any, tensor<2x1x!s>) -> !anyb
  func.return %0 : !anyb
}

// CHECK-LABEL: func.func @per_axis(
// CHECK-NEXT: nn.constant
// CHECK-NEXT: nn.add
// CHECK-NEXT: return
func.func @per_axis(%x: !rows) -> !rows {
  %c = nn.constant dense<2> : tensor<i8> : tensor<!s>
  // expected-remark@+1 {{chain-to-table refused [per-axis]: one table for parameters that differ}}
  %0 = nn.add %x, %c : (!rows, tensor<!s>) -> !rows
  func.return %0 : !rows
}

// 1 / x where x may be 0: no real number, so floats keep it.
// CHECK-LABEL: func.func @undefined(
// CHECK: nn.reciprocal
func.func @undefined(%x: !a) -> !b {
  %0 = quant.dcast %x : !a to !f
  %1 = nn.reciprocal %0 : (!f) -> !f
  // expected-remark@+1 {{chain-to-table refused [undecided]: a result is not a number}}
  %2 = quant.qcast %1 : !f to !b
  func.return %2 : !b
}

// Casts, rescales and clamps only are left to others; so are 16-bit codes.
// CHECK-LABEL: func.func @left(
// CHECK-NOT: nn.table
func.func @left(%x: !a, %w: tensor<2x!quant.uniform<i16:f32, 0.5>>) -> (!b, tensor<2x!quant.uniform<i16:f32, 0.5>>) {
  %0 = quant.rescale %x : !a to !q
  %1 = nn.relu %0 : (!q) -> !q
  %2 = quant.rescale %1 : !q to !b
  %3 = nn.tanh %w : (tensor<2x!quant.uniform<i16:f32, 0.5>>) -> tensor<2x!quant.uniform<i16:f32, 0.5>>
  func.return %2, %3 : !b, tensor<2x!quant.uniform<i16:f32, 0.5>>
}
