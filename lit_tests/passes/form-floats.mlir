// RUN: qopt-opt %s -p "form-floats{where=all}" --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p "form-floats{where=all}" --verify-numerics=6 > %t
// RUN: qopt-opt %s -p "form-floats{where=all}" > %t && qopt-opt %t -p "form-floats{where=all}" > %t.2 && diff %t %t.2

// Averages on codes as averages on floats, which a runtime must not put together again.

!x = tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:3>>
!y = tensor<1x2x2x2x!quant.uniform<u8:f32, 0.25:7>>
!fx = tensor<1x2x4x4xf32>
!fy = tensor<1x2x2x2xf32>
!flat = tensor<1x8xf32>
!codes = tensor<1x8x!quant.uniform<u8:f32, 0.25:7>>
!rows = tensor<1x2x4x4x!quant.uniform<u8:f32:1, {0.5:3, 0.25}>>
!any = tensor<?x2x4x4x!quant.uniform<u8:f32, 0.5:3>>
!any_y = tensor<?x2x2x2x!quant.uniform<u8:f32, 0.25:7>>
!both = tensor<?x2x?x4x!quant.uniform<u8:f32, 0.5:3>>
!both_y = tensor<?x2x?x2x!quant.uniform<u8:f32, 0.25:7>>

// CHECK-LABEL: func.func @average(
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: nn.avg_pool2d {{.*}} kernel [2, 2] strides [2, 2] : (tensor<1x2x4x4xf32>)
// CHECK-NEXT: nn.flatten {{.*}} -> tensor<1x8xf32>
// CHECK-NEXT: quant.qcast
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: return
func.func @average(%x: !x) -> !y {
  // DOC-BEFORE
  // expected-remark@+1 {{op-to-floats fired, exact}}
  %0 = nn.avg_pool2d %x kernel [2, 2] strides [2, 2] : (!x) -> !y
  // DOC-AFTER
  //   %1 = quant.dcast %x : !x to !fx
  //   %2 = nn.avg_pool2d %1 kernel [2, 2] strides [2, 2] : (!fx) -> !fy
  //   %3 = nn.flatten %2 : (!fy) -> !flat
  //   %4 = quant.qcast %3 : !flat to !codes
  //   %0 = nn.reshape %4 : (!codes) -> !y
  // DOC-END
  return %0 : !y
}

// The rounding goes along, and every use.

// CHECK-LABEL: func.func @multi_use(
// CHECK: quant.qcast {{.*}}quant.rounding = "half_away"
// CHECK: [[Y:%[a-z0-9_]+]] = nn.reshape
// CHECK: return [[Y]], [[Y]]
func.func @multi_use(%x: !x) -> (!y, !y) {
  // expected-remark@+1 {{op-to-floats fired, exact}}
  %0 = nn.avg_pool2d %x rounding half_away kernel [2, 2] strides [2, 2] : (!x) -> !y
  return %0, %0 : !y, !y
}

// CHECK-LABEL: func.func @dynamic(
// CHECK: nn.flatten {{.*}} -> tensor<?x8xf32>
// CHECK: nn.reshape
func.func @dynamic(%x: !any) -> !any_y {
  // expected-remark@+1 {{op-to-floats fired, exact}}
  %0 = nn.avg_pool2d %x kernel [2, 2] strides [2, 2] : (!any) -> !any_y
  return %0 : !any_y
}

// CHECK-LABEL: func.func @two_unknown(
// CHECK-NEXT: nn.avg_pool2d
func.func @two_unknown(%x: !both) -> !both_y {
  // expected-remark@+1 {{op-to-floats refused [shape]: a reshape cannot give it its shape again}}
  %0 = nn.avg_pool2d %x kernel [1, 2] strides [1, 2] : (!both) -> !both_y
  return %0 : !both_y
}

// CHECK-LABEL: func.func @per_axis(
// CHECK-NEXT: nn.avg_pool2d
func.func @per_axis(%x: !rows) -> !y {
  // expected-remark@+1 {{op-to-floats refused [grid]: not every value has one scale}}
  %0 = nn.avg_pool2d %x kernel [2, 2] strides [2, 2] : (!rows) -> !y
  return %0 : !y
}
