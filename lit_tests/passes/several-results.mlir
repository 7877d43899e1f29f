// RUN: qopt-opt %s -p sink-rescale,integerize --remarks --verify-diagnostics | filecheck %s

// Ops with several results take part like any other: the qparams of each part are
// those of its own slice.

!q = tensor<2x!quant.uniform<i8:f32:0, {0.5, 1.0}>>
!fine = tensor<2x!quant.uniform<i8:f32:0, {0.25, 0.125}>>
!first = tensor<1x!quant.uniform<i8:f32, 0.5>>
!second = tensor<1x!quant.uniform<i8:f32, 1.0>>

// CHECK-LABEL: @sink
// CHECK-NEXT:  %[[S:.*]]:2 = nn.split %arg0 sizes [1, 1] : ({{.*}}) -> (tensor<1x!quant.uniform<i8:f32, 2.500000e-01>>, tensor<1x!quant.uniform<i8:f32, 1.250000e-01>>)
// CHECK-NEXT:  quant.rescale %[[S]]#0
// CHECK-NEXT:  quant.rescale %[[S]]#1
func.func @sink(%x: !fine) -> (!first, !second) {
  %0 = quant.rescale %x : !fine to !q
  // expected-remark @+1 {{sink-through-tied fired, exact}}
  %1:2 = nn.split %0 sizes [1, 1] : (!q) -> (!first, !second)
  return %1#0, %1#1 : !first, !second
}

// CHECK-LABEL: @hoist
// CHECK-NOT:   xf32
// CHECK:       %[[S:.*]]:2 = nn.split %arg0
// CHECK-NEXT:  return %[[S]]#0, %[[S]]#1
func.func @hoist(%x: !q) -> (!first, !second) {
  %0 = quant.dcast %x : !q to tensor<2xf32>
  // expected-remark @+1 {{sink-dequantize fired, exact}}
  %1:2 = nn.split %0 sizes [1, 1] : (tensor<2xf32>) -> (tensor<1xf32>, tensor<1xf32>)
  // expected-remark @+1 {{quantize-of-dequantize fired, exact}}
  %2 = quant.qcast %1#0 : tensor<1xf32> to !first
  // expected-remark @+1 {{quantize-of-dequantize fired, exact}}
  %3 = quant.qcast %1#1 : tensor<1xf32> to !second
  return %2, %3 : !first, !second
}

// One part leaves as float: nothing moves.
// CHECK-LABEL: @open
// CHECK:       quant.dcast
// CHECK-NEXT:  nn.split
func.func @open(%x: !q) -> (!first, tensor<1xf32>) {
  %0 = quant.dcast %x : !q to tensor<2xf32>
  // expected-remark @+1 {{sink-dequantize refused [open-region]}}
  %1:2 = nn.split %0 sizes [1, 1] : (tensor<2xf32>) -> (tensor<1xf32>, tensor<1xf32>)
  // expected-remark @+1 {{hoist-quantize refused [multi-use]}}
  %2 = quant.qcast %1#0 : tensor<1xf32> to !first
  return %2, %1#1 : !first, tensor<1xf32>
}
