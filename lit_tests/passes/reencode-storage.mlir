// RUN: qopt-opt %s -p reencode-storage --verify-numerics=2 | filecheck %s
// RUN: qopt-opt %s -p 'reencode-storage{activations=keep weights=u8}' | filecheck %s --check-prefix=WEIGHTS
// RUN: not qopt-opt %s -p 'reencode-storage{activations=i4}' 2>&1 | filecheck %s --check-prefix=WRONG
// WRONG: reencode-storage: unknown encoding 'i4' (i8, u8 or keep)

// Activations as u8, weights as i8: the same numbers under other codes.

!f = tensor<2x2xf32>
!q = tensor<2x2x!quant.uniform<i8:f32, 0.5:3>>
!u = tensor<2x2x!quant.uniform<u8:f32, 0.5:131>>
!out = tensor<2x2x!quant.uniform<i8:f32, 4.0:-10>>

// CHECK-LABEL: func.func @inside(
// CHECK-NEXT: quant.qcast {{.*}} to tensor<2x2x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: nn.relu {{.*}} -> tensor<2x2x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: return
// WEIGHTS-LABEL: func.func @inside(
// WEIGHTS-NEXT: quant.qcast {{.*}} to tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @inside(%x: !f) -> !f {
  // DOC-BEFORE
  %0 = quant.qcast %x : !f to !q
  %1 = nn.relu %0 : (!q) -> !q
  %2 = quant.dcast %1 : !q to !f
  // DOC-AFTER
  //   %0 = quant.qcast %x : !f to !u
  //   %1 = nn.relu %0 : (!u) -> !u
  //   %2 = quant.dcast %1 : !u to !f
  // DOC-END
  func.return %2 : !f
}

// The interface keeps its codes: a rescale renumbers them.
// CHECK-LABEL: func.func @interface(
// CHECK-SAME: tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: quant.rescale {{.*}} to tensor<2x2x!quant.uniform<u8:f32, 5.000000e-01:131>>
// CHECK-NEXT: nn.relu
// CHECK-NEXT: quant.rescale {{.*}} to tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return
func.func @interface(%x: !q) -> !q {
  %0 = nn.relu %x : (!q) -> !q
  func.return %0 : !q
}

// Weights one way, activations the other; a per-axis weight keeps its axis. A constant
// used as both is stored twice.
// CHECK-LABEL: func.func @weights(
// CHECK-DAG: nn.constant dense<{{.*}}1, 2], [3, -4]]> : tensor<2x2xi8> {nn.key = "w"} : tensor<2x2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-DAG: nn.constant {{.*}} : tensor<2x2x!quant.uniform<u8:f32, 1.000000e+00:128>>
// CHECK-DAG: nn.constant {{.*}} : tensor<2x2x!quant.uniform<i8:f32, 1.000000e+00>>
// CHECK: nn.fully_connected
// CHECK-SAME: (tensor<2x2x!quant.uniform<u8:f32, 5.000000e-01:131>>, tensor<2x2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01}>>) -> tensor<2x2x!quant.uniform<u8:f32, 4.000000e+00:118>>
// WEIGHTS-LABEL: func.func @weights(
// WEIGHTS: nn.fully_connected
// WEIGHTS-SAME: (tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2x2x!quant.uniform<u8:f32:0, {5.000000e-01:128,2.500000e-01:128}>>)
func.func @weights(%x: !q) -> !out {
  %w = nn.constant dense<[[1, 2], [3, -4]]> : tensor<2x2xi8> {nn.key = "w"} : tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>
  %c = nn.constant dense<[[5, 6], [7, -128]]> : tensor<2x2xi8> {nn.key = "c"} : tensor<2x2x!quant.uniform<i8:f32, 1.0>>
  %0 = nn.fully_connected %x, %w : (!q, tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> !out
  %1 = nn.fully_connected %0, %c : (!out, tensor<2x2x!quant.uniform<i8:f32, 1.0>>) -> !out
  %2 = nn.add %1, %c : (!out, tensor<2x2x!quant.uniform<i8:f32, 1.0>>) -> !out
  func.return %2 : !out
}

// CHECK-LABEL: func.func @dynamic(
// CHECK: nn.softmax {{.*}} -> tensor<?x2x!quant.uniform<u8:f32, 3.906250e-03>>
func.func @dynamic(%x: tensor<?x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<?x2xf32> {
  %0 = nn.softmax %x : (tensor<?x2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<?x2x!quant.uniform<i8:f32, 0.00390625:-128>>
  %1 = quant.dcast %0 : tensor<?x2x!quant.uniform<i8:f32, 0.00390625:-128>> to tensor<?x2xf32>
  func.return %1 : tensor<?x2xf32>
}

// Narrowed bounds move along; other widths stay.
// CHECK-LABEL: func.func @bounds(
// CHECK-NEXT: quant.qcast {{.*}} to tensor<2x2x!quant.uniform<u8<1:255>:f32, 5.000000e-01:128>>
// CHECK-NEXT: quant.qcast {{.*}} to tensor<2x2x!quant.uniform<i16:f32, 5.000000e-01>>
func.func @bounds(%x: !f) -> (!f, !f) {
  %0 = quant.qcast %x : !f to tensor<2x2x!quant.uniform<i8<-127:127>:f32, 0.5>>
  %1 = quant.qcast %x : !f to tensor<2x2x!quant.uniform<i16:f32, 0.5>>
  %2 = quant.dcast %0 : tensor<2x2x!quant.uniform<i8<-127:127>:f32, 0.5>> to !f
  %3 = quant.dcast %1 : tensor<2x2x!quant.uniform<i16:f32, 0.5>> to !f
  func.return %2, %3 : !f, !f
}

// Bits that are looked at stay as they were.
// CHECK-LABEL: func.func @bits(
// CHECK-NEXT: quant.qcast {{.*}} to tensor<2x2x!quant.uniform<u8
// CHECK-NEXT: quant.rescale {{.*}} to tensor<2x2x!quant.uniform<i8
// CHECK-NEXT: quant.scast
func.func @bits(%x: !f) -> tensor<2x2xi8> {
  %0 = quant.qcast %x : !f to !q
  %1 = quant.scast %0 : !q to tensor<2x2xi8>
  func.return %1 : tensor<2x2xi8>
}

// A rescale to what only keeps its codes stays one: after it a rescale that renumbers would follow.
// CHECK-LABEL: func.func @kept(
// CHECK-NEXT: quant.rescale {{.*}}i16:f32{{.*}} to tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return
func.func @kept(%x: tensor<2x2x!quant.uniform<i16:f32, 0.25>>) -> !q {
  %0 = quant.rescale %x : tensor<2x2x!quant.uniform<i16:f32, 0.25>> to !q
  func.return %0 : !q
}
