// RUN: qopt-opt %s -p "form-prelu{numerics=ties}" --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p "form-prelu{numerics=ties}" --verify-numerics=6 > %t
// RUN: qopt-opt %s -p "form-prelu{numerics=ties}" > %t && qopt-opt %t -p "form-prelu{numerics=ties}" > %t.2 && diff %t %t.2

// PReLU as a product and a maximum, or a minimum, of floats.

!x = tensor<1x2x2x2x!quant.uniform<u8:f32, 0.5:3>>
!y = tensor<1x2x2x2x!quant.uniform<u8:f32, 0.25:7>>
!f = tensor<1x2x2x2xf32>
!a = tensor<2x1x1xf32>
!codes = tensor<2x1x1x!quant.uniform<i8:f32, 0.01>>

// CHECK-LABEL: func.func @on_codes(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK: [[A:%[a-z0-9_]+]] = nn.constant
// CHECK-NEXT: [[F:%[a-z0-9_]+]] = quant.dcast [[X]]
// CHECK-NEXT: [[M:%[a-z0-9_]+]] = nn.mul [[F]], [[A]]
// CHECK-NEXT: [[C:%[a-z0-9_]+]] = nn.maximum [[F]], [[M]]
// CHECK-NEXT: [[Y:%[a-z0-9_]+]] = quant.qcast [[C]] {nn.key = "p"}
// CHECK-NEXT: return [[Y]], [[Y]]
func.func @on_codes(%x: !x) -> (!y, !y) {
  %a = nn.constant dense<[[[0.25]], [[-0.5]]]> : !a : !a
  // expected-remark@+1 {{prelu-to-product fired, ties}}
  %0 = nn.prelu %x, %a {nn.key = "p"} : (!x, !a) -> !y
  return %0, %0 : !y, !y
}

// CHECK-LABEL: func.func @example(
// CHECK: nn.maximum
func.func @example(%x: !x) -> !y {
  // DOC-BEFORE
  %a = nn.constant dense<0.25> : !a : !a
  // expected-remark@+1 {{prelu-to-product fired, ties}}
  %0 = nn.prelu %x, %a : (!x, !a) -> !y
  // DOC-AFTER
  //   %a = nn.constant dense<0.25> : !a : !a
  //   %1 = quant.dcast %x : !x to !f
  //   %2 = nn.mul %1, %a : (!f, !a) -> !f
  //   %3 = nn.maximum %1, %2 : (!f, !f) -> !f
  //   %0 = quant.qcast %3 : !f to !y
  // DOC-END
  return %0 : !y
}

// Slopes that are codes, and a PReLU of floats that were codes.
// CHECK-LABEL: func.func @between_casts(
// CHECK: [[F:%[a-z0-9_]+]] = quant.dcast
// CHECK: [[A:%[a-z0-9_]+]] = quant.dcast
// CHECK: [[M:%[a-z0-9_]+]] = nn.mul [[F]], [[A]]
// CHECK: [[C:%[a-z0-9_]+]] = nn.minimum [[F]], [[M]]
// CHECK: return [[C]]
func.func @between_casts(%x: !x) -> !f {
  %a = nn.constant dense<[[[100]], [[127]]]> : tensor<2x1x1xi8> : !codes
  %0 = quant.dcast %x : !x to !f
  // expected-remark@+1 {{prelu-to-product fired, exact}}
  %1 = nn.prelu %0, %a : (!f, !codes) -> !f
  return %1 : !f
}

// Floats that nobody knows, an infinity maybe, of any extent; what others take of x stays.
// CHECK-LABEL: func.func @floats(
// CHECK: [[M:%[a-z0-9_]+]] = nn.mul [[X:%[a-z0-9_]+]],
// CHECK-NEXT: [[C:%[a-z0-9_]+]] = nn.maximum [[X]], [[M]]
// CHECK-NEXT: return [[C]], [[X]]
func.func @floats(%x: tensor<?x2x2x2xf32>) -> (tensor<?x2x2x2xf32>, tensor<?x2x2x2xf32>) {
  %a = nn.constant dense<[[[0.25]], [[1.0]]]> : !a : !a
  // expected-remark@+1 {{prelu-to-product fired, exact}}
  %0 = nn.prelu %x, %a : (tensor<?x2x2x2xf32>, !a) -> tensor<?x2x2x2xf32>
  return %0, %x : tensor<?x2x2x2xf32>, tensor<?x2x2x2xf32>
}

// CHECK-LABEL: func.func @refused(
// CHECK-COUNT-3: nn.prelu
func.func @refused(%x: !x, %f: !f, %s: !a) -> (!y, !y, !f) {
  %a = nn.constant dense<[[[0.25]], [[1.5]]]> : !a : !a
  // expected-remark@+1 {{prelu-to-product refused [slope]: slopes are not constant floats on one side of 1}}
  %0 = nn.prelu %x, %a : (!x, !a) -> !y
  // expected-remark@+1 {{prelu-to-product refused [slope]}}
  %1 = nn.prelu %x, %s : (!x, !a) -> !y
  %b = nn.constant dense<0.0> : !a : !a
  // expected-remark@+1 {{prelu-to-product refused [finite]: it is not known that all numbers are finite}}
  %2 = nn.prelu %f, %b : (!f, !a) -> !f
  return %0, %1, %2 : !y, !y, !f
}
