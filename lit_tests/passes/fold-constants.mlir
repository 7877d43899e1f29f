// RUN: qopt-opt %s -p fold-constants --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p fold-constants | qopt-opt -p fold-constants | filecheck %s
// RUN: qopt-opt %s -p 'fold-constants{max-growth=5000 dequantize=true}' | filecheck %s --check-prefix=ALL

!axis0 = tensor<2x3x1x1x!quant.uniform<i8:f32:0, {0.5, 2.0}>>
!axis1 = tensor<2x3x!quant.uniform<i8:f32:1, {1.0, 2.0, 4.0}>>

// A 1x1 convolution turned fully connected: the weight ends as a constant that is
// quantized along its output channels.
// CHECK-LABEL: @weight
// CHECK-NEXT:  %[[W:.*]] = nn.constant dense<{{\[\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2xi8> {nn.key = "t"} : tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.000000e+00}>>
// CHECK-NEXT:  quant.dcast %[[W]] {nn.key = "t"}
// CHECK-NEXT:  nn.matmul
// ALL-LABEL: @weight
// ALL-NEXT:  nn.constant dense<{{.*}}> : tensor<3x2xf32> {nn.key = "t"} : tensor<3x2xf32>
func.func @weight(%x: tensor<1x3xf32>) -> tensor<1x2xf32> {
  %w = nn.constant dense<[[[[1]], [[2]], [[3]]], [[[4]], [[5]], [[6]]]]> : tensor<2x3x1x1xi8> {nn.key = "w"} : !axis0
  %d = quant.dcast %w {nn.key = "d"} : !axis0 to tensor<2x3x1x1xf32>
  // expected-remark @+1 {{fold-behind-dequantize fired, exact}}
  %r = nn.reshape %d {nn.key = "r"} : (tensor<2x3x1x1xf32>) -> tensor<2x3xf32>
  // expected-remark @+1 {{fold-behind-dequantize fired, exact}}
  %t = nn.transpose %r perm [1, 0] {nn.key = "t"} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %y = nn.matmul %x, %t : (tensor<1x3xf32>, tensor<3x2xf32>) -> tensor<1x2xf32>
  return %y : tensor<1x2xf32>
}

// 0.5 + 0.5 = 1.0 = 10 * 0.1 ; 1.0 + 0.5 = 1.5
// CHECK-LABEL: @add
// CHECK-NEXT:  nn.constant dense<[10, 15]> : tensor<2xi8> {nn.key = "sum"} : tensor<2x!quant.uniform<u8:f32, 1.000000e-01>>
!half = tensor<2x!quant.uniform<i8:f32, 0.5>>
!quarter = tensor<1x!quant.uniform<i8:f32, 0.25:1>>
!sum = tensor<2x!quant.uniform<u8:f32, 0.1>>
func.func @add() -> !sum {
  // DOC-BEFORE
  %a = nn.constant dense<[1, 2]> : tensor<2xi8> : !half
  %b = nn.constant dense<[3]> : tensor<1xi8> : !quarter
  // expected-remark @+1 {{fold-arithmetic fired, exact}}
  %0 = nn.add %a, %b {nn.key = "sum"} : (!half, !quarter) -> !sum
  // DOC-AFTER
  //   %0 = nn.constant dense<[10, 15]> : tensor<2xi8> {nn.key = "sum"} : !sum
  // DOC-END
  return %0 : !sum
}

// (1 * 0.5) * 2 + (2 * 0.5) * -1 + (0 * 0.5) * 4 = 0 ; 0.5 * 3 = 1.5 = 2 * 1.0, half even
// CHECK-LABEL: @product
// CHECK-NEXT:  nn.constant dense<{{\[\[}}0, 2]]> : tensor<1x2xi8> {nn.key = "y"}
!row = tensor<1x3x!quant.uniform<i8:f32, 0.5:1>>
!columns = tensor<2x3x!quant.uniform<i8:f32, 1.0>>
!product = tensor<1x2x!quant.uniform<i8:f32, 1.0>>
func.func @product() -> !product {
  %a = nn.constant dense<[[2, 3, 1]]> : tensor<1x3xi8> : !row
  %b = nn.constant dense<[[2, -1, 4], [3, 0, 0]]> : tensor<2x3xi8> : !columns
  // expected-remark @+1 {{fold-arithmetic fired, exact}}
  %y = nn.fully_connected %a, %b {nn.key = "y"} : (!row, !columns) -> !product
  return %y : !product
}

// Both users get their own constant; the shared one keeps its key and value.
// CHECK-LABEL: @shared
// CHECK-DAG:   nn.constant dense<[1, 2]> : tensor<2xi8> {nn.key = "w"}
// CHECK-DAG:   nn.constant dense<[2, 1]> : tensor<2xi8> {nn.key = "f"} : tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,1.000000e+00}>>
// CHECK-DAG:   nn.constant dense<[1]> : tensor<1xi8> {nn.key = "s"} : tensor<1x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK-DAG:   nn.constant dense<[2]> : tensor<1xi8> {nn.key = "s_1"} : tensor<1x!quant.uniform<i8:f32, 2.000000e+00>>
!pair = tensor<2x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
!swapped = tensor<2x!quant.uniform<i8:f32:0, {2.0, 1.0}>>
!one = tensor<1x!quant.uniform<i8:f32, 1.0>>
!two = tensor<1x!quant.uniform<i8:f32, 2.0>>
func.func @shared() -> (!pair, !swapped, !one, !two) {
  %w = nn.constant dense<[1, 2]> : tensor<2xi8> {nn.key = "w"} : !pair
  // expected-remark @+1 {{fold-movement fired, exact}}
  %f = nn.flip %w axes [0] {nn.key = "f"} : (!pair) -> !swapped
  // expected-remark @+1 {{fold-movement fired, exact}}
  %s:2 = nn.split %w sizes [1, 1] {nn.key = "s"} : (!pair) -> (!one, !two)
  return %w, %f, %s#0, %s#1 : !pair, !swapped, !one, !two
}

// The reshape cuts the quantized dimension: the dequantize stays where it is.
// CHECK-LABEL: @axis_split
// CHECK:       quant.dcast
// CHECK-NEXT:  nn.reshape
func.func @axis_split() -> tensor<2x2xf32> {
  %w = nn.constant dense<[1, 2, 3, 4]> : tensor<4xi8> : tensor<4x!quant.uniform<i8:f32:0, {1.0, 2.0, 4.0, 8.0}>>
  %d = quant.dcast %w : tensor<4x!quant.uniform<i8:f32:0, {1.0, 2.0, 4.0, 8.0}>> to tensor<4xf32>
  // expected-remark @+1 {{fold-behind-dequantize refused [axis-split]}}
  %r = nn.reshape %d : (tensor<4xf32>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}

// CHECK-LABEL: @border
// CHECK:       nn.pad
func.func @border() -> tensor<3xf32> {
  %w = nn.constant dense<[1, 2]> : tensor<2xi8> : tensor<2x!quant.uniform<i8:f32, 0.5>>
  %d = quant.dcast %w : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2xf32>
  // expected-remark @+1 {{fold-behind-dequantize refused [pad-value]}}
  %r = nn.pad %d low [1] high [0] value 0.3 : (tensor<2xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// CHECK-LABEL: @growth
// CHECK:       nn.expand
// ALL-LABEL:   @growth
// ALL-NOT:     nn.expand
func.func @growth() -> tensor<4096xf32> {
  %w = nn.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
  // expected-remark @+1 {{fold-movement refused [growth]: 1 elements become 4096, the cap is 1024}}
  %r = nn.expand %w shape [4096] : (tensor<1xf32>) -> tensor<4096xf32>
  return %r : tensor<4096xf32>
}

// ALL-LABEL: @left
// CHECK-LABEL: @left
func.func @left(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<?xf32>, tensor<1x1xf32>) {
  %w = nn.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  // One operand is no constant.
  // CHECK: nn.add %arg0
  %0 = nn.add %x, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  // CHECK: nn.flip
  // expected-remark @+1 {{fold-movement refused [dynamic-shape]}}
  %1 = nn.flip %w axes [0] : (tensor<2xf32>) -> tensor<?xf32>
  %m = nn.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %n = nn.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32> : tensor<2x1xf32>
  // CHECK: nn.matmul
  // expected-remark @+1 {{fold-arithmetic refused [numerics]: would be ties}}
  %2 = nn.matmul %m, %n : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
  return %0, %1, %2 : tensor<2xf32>, tensor<?xf32>, tensor<1x1xf32>
}

// Rank 0 and no elements.
// CHECK-LABEL: @corners
// CHECK-NOT:   nn.{{[adtru]}}
func.func @corners() -> (tensor<!quant.uniform<i8:f32, 0.5>>, tensor<0x3xf32>) {
  %w = nn.constant dense<3> : tensor<i8> : tensor<!quant.uniform<i8:f32, 0.5>>
  // expected-remark @+1 {{fold-arithmetic fired, exact}}
  %0 = nn.add %w, %w : (tensor<!quant.uniform<i8:f32, 0.5>>, tensor<!quant.uniform<i8:f32, 0.5>>) -> tensor<!quant.uniform<i8:f32, 0.5>>
  %e = nn.constant dense<> : tensor<3x0xf32> : tensor<3x0xf32>
  // expected-remark @+1 {{fold-movement fired, exact}}
  %1 = nn.transpose %e perm [1, 0] : (tensor<3x0xf32>) -> tensor<0x3xf32>
  return %0, %1 : tensor<!quant.uniform<i8:f32, 0.5>>, tensor<0x3xf32>
}

// The same bits: of two of them, unsigned 2 and 3 are signless -2 and -1.
// CHECK-LABEL: @storage
// CHECK-NEXT:  nn.constant dense<[0, 1, -2, -1]> : tensor<4xi2>
!crumbs = tensor<4x!quant.uniform<u2:f32, 0.5>>
func.func @storage() -> tensor<4xi2> {
  %0 = nn.constant dense<[0, 1, 2, 3]> : tensor<4xi2> : !crumbs
  // expected-remark @+1 {{storage-cast-of-constant fired, exact}}
  %1 = quant.scast %0 {nn.key = "bits"} : !crumbs to tensor<4xi2>
  return %1 : tensor<4xi2>
}
