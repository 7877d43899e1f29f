// RUN: qopt-opt %s -p 'regrid{numerics=relaxed}' --target=tensorrt --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p 'regrid{numerics=relaxed},regrid{numerics=relaxed}' --target=tensorrt | filecheck %s
// RUN: qopt-opt %s -p 'regrid' --target=tensorrt --remarks 2>&1 | filecheck %s --check-prefix=EXACT
// RUN: qopt-opt %s -p 'regrid{numerics=relaxed}' --target=generic | filecheck %s --check-prefix=FREE

!f = tensor<1x2x4x4xf32>
!u = tensor<1x2x4x4x!quant.uniform<u8:f32, 0.3:100>>
!s = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.3>>
!r = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.1:-128>>
!w = tensor<2x2x1x1x!quant.uniform<i8:f32:0, {0.03, 0.02}>>
!wf = tensor<2x2x1x1xf32>
!a = tensor<?x4x!quant.uniform<i8:f32, 0.3:5>>
!b = tensor<?x4x!quant.uniform<i8:f32, 0.2:7>>
!c = tensor<1x2x4x!quant.uniform<i8:f32:1, {0.3, 0.2}>>

// TensorRT has zero point 0 everywhere. Codes of -30 to 46.5 become codes of -46.5 to 46.5, clipped
// below; what saturates at 0 was a ReLU, so it stays one; weights that are taken stay as they are.

// CHECK-LABEL: func.func @fires(
// CHECK-NEXT: quant.qcast %arg0 : {{.*}} to tensor<1x2x4x4x!quant.uniform<i8:f32, 0.366{{[0-9]*}}>>
// CHECK-NEXT: %[[X:.*]] = quant.dcast
// CHECK-NEXT: nn.clip %[[X]] min -30.0
// CHECK-NEXT: nn.relu
// CHECK-NEXT: nn.constant {{.*}}!quant.uniform<i8:f32:0, {3.000000e-02,2.000000e-02}>>
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: %[[Y:.*]] = nn.conv2d
// CHECK-NEXT: %[[C:.*]] = nn.clip %[[Y]] min 0.0 :
// CHECK-NEXT: quant.qcast %[[C]] : {{.*}} to tensor<1x2x4x4x!quant.uniform<i8:f32, 0.200{{[0-9]*}}>>
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: return
// EXACT: 'nn.relu' regrid refused [numerics]: tensorrt: u8 is not i8 zero=0; needs numerics=relaxed
// EXACT: 'nn.conv2d' regrid refused [numerics]: tensorrt: zero point -128 is not 0
// FREE-LABEL: func.func @fires(
// FREE-NEXT: quant.qcast %arg0 : {{.*}} to tensor<1x2x4x4x!quant.uniform<u8:f32, 3.000000e-01:100>>
// expected-remark@+1 {{regrid fired, relaxed}}
func.func @fires(%x: !f) -> !f {
  %0 = quant.qcast %x : !f to !u
  %1 = quant.dcast %0 : !u to !f
  %2 = nn.relu %1 : (!f) -> !f
  %w = nn.constant dense<[[[[3]], [[-2]]], [[[1]], [[4]]]]> : tensor<2x2x1x1xi8> : !w
  %3 = quant.dcast %w : !w to !wf
  %4 = nn.conv2d %2, %3 : (!f, !wf) -> !f
  %5 = quant.qcast %4 : !f to !r
  %6 = quant.dcast %5 : !r to !f
  func.return %6 : !f
}

// CHECK-LABEL: func.func @taken(
// CHECK-NEXT: nn.relu %arg0 : (tensor<1x2x4x4x!quant.uniform<i8:f32, 3.000000e-01>>)
func.func @taken(%x: !s) -> !s {
  %0 = nn.relu %x : (!s) -> !s
  func.return %0 : !s
}

// No tensor of TensorRT has a zero point of 5, so the function takes floats now and says so. %0 has
// two users.

// CHECK-LABEL: func.func @codes(%arg0: tensor<?x4xf32>, %arg1: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
// CHECK: nn.mul
// CHECK-NEXT: nn.clip
// CHECK-NEXT: quant.qcast {{.*}} to tensor<?x4x!quant.uniform<i8:f32, 0.2109375>>
// CHECK: nn.add
// CHECK-NEXT: nn.clip
// CHECK-NEXT: quant.qcast {{.*}} to tensor<?x4x!quant.uniform<i8:f32, 0.2109375>>
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: return
// expected-remark@+5 {{argument #0 is of floats now: tensorrt: the zero point of i8 is 0}}
// expected-remark@+4 {{argument #1 is of floats now: tensorrt: the zero point of i8 is 0}}
// expected-remark@+3 {{result #0 is of floats now: tensorrt: the zero point of i8 is 0}}
// expected-remark@+2 {{result #1 is of floats now: tensorrt: the zero point of i8 is 0}}
// expected-remark@+1 {{regrid fired, relaxed}}
func.func @codes(%x: !a, %y: !b) -> (!b, !b) {
  %0 = nn.mul %x, %y : (!a, !b) -> !b
  %1 = nn.add %0, %x : (!b, !a) -> !b
  func.return %0, %1 : !b, !b
}

// CHECK-LABEL: func.func @channels(
// CHECK: nn.relu {{.*}}xf32>) -> tensor<1x2x4xf32>
// expected-remark@+1 {{regrid fired, relaxed}}
func.func @channels(%x: !c) -> !c {
  // expected-remark@+1 {{left float: it moves elements between float ops}}
  %0 = nn.relu %x : (!c) -> !c
  func.return %0 : !c
}

// A table is of codes, so these stay.

// CHECK-LABEL: func.func @table(
// CHECK: nn.constant
// CHECK: nn.table {{.*}} : (tensor<?x4x!quant.uniform<i8:f32, 3.000000e-01:5>>, tensor<256x!quant.uniform<i8:f32, 2.000000e-01:7>>)
// expected-remark@+4 {{argument #0 is of floats now}}
// expected-remark@+3 {{result #0 is of floats now}}
// expected-remark@+2 {{regrid fired, relaxed}}
// expected-remark@+1 {{left float: it moves elements between float ops}}
func.func @table(%x: !a) -> !b {
  %t = nn.constant dense<3> : tensor<256xi8> : tensor<256x!quant.uniform<i8:f32, 0.2:7>>
  // expected-remark@+1 {{left float: it moves elements between float ops}}
  %0 = nn.relu %x : (!a) -> !a
  %1 = nn.table %0, %t : (!a, tensor<256x!quant.uniform<i8:f32, 0.2:7>>) -> !b
  // expected-remark@+2 {{left float: the model returns its floats, and nothing takes codes of it}}
  // expected-remark@+1 {{left float: it moves elements between float ops}}
  %2 = nn.sigmoid %1 : (!b) -> !b
  func.return %2 : !b
}

// What quantizes at run time has no qparams to give.

// CHECK-LABEL: func.func @dynamic(
// CHECK: nn.dynamic_quantize %arg1
// expected-remark@+4 {{argument #0 is of floats now}}
// expected-remark@+3 {{result #1 is of floats now}}
// expected-remark@+2 {{regrid fired, relaxed}}
// expected-remark@+1 {{left float: it moves elements between float ops}}
func.func @dynamic(%x: !a, %y: !f) -> (tensor<1x2x4x4xui8>, !a) {
  // expected-remark@+1 {{left float: it takes no float tensors}}
  %0, %1, %2 = nn.dynamic_quantize %y : (!f) -> (tensor<1x2x4x4xui8>, tensor<f32>, tensor<ui8>)
  // expected-remark@+2 {{left float: it moves elements between float ops}}
  // expected-remark@+1 {{left float: it moves elements between float ops}}
  %3 = nn.relu %x : (!a) -> !a
  func.return %0, %3 : tensor<1x2x4x4xui8>, !a
}
