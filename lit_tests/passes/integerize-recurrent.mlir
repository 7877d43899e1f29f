// RUN: qopt-opt %s -p integerize --remarks --verify-diagnostics | filecheck %s

// Each of several results is quantized; one that nothing uses has its type from `nn.qparams`.

!f = tensor<5x2x3xf32>
!qx = tensor<5x2x3x!quant.uniform<i8:f32, 0.1>>
!qw = tensor<1x18x3x!quant.uniform<i8:f32, 0.01>>
!qr = tensor<1x18x6x!quant.uniform<i8:f32, 0.01>>
!qh = tensor<1x2x6x!quant.uniform<i8:f32, 7.8125e-03>>

// CHECK-LABEL: func.func @several(
// CHECK-NOT: dcast
// CHECK: [[H:%.*]]:2 = nn.gru %{{.*}} last_states 1 {{.*}} -> (tensor<5x1x2x6x!quant.uniform<i8:f32, 3.125000e-02>>, tensor<1x2x6x!quant.uniform<i8:f32, 7.812500e-03>>)
// CHECK: return [[H]]#1
func.func @several(%x: !qx, %w: !qw, %r: !qr) -> !qh {
  %b = nn.constant dense<1.0> : tensor<1x36xf32> : tensor<1x36xf32>
  %0 = quant.dcast %x : !qx to !f
  %1 = quant.dcast %w : !qw to tensor<1x18x3xf32>
  %2 = quant.dcast %r : !qr to tensor<1x18x6xf32>
  %3, %4 = nn.gru %0, %1, %2, %b last_states 1 {nn.qparams = {result = !quant.uniform<i8:f32, 3.125e-02>}} : (!f, tensor<1x18x3xf32>, tensor<1x18x6xf32>, tensor<1x36xf32>) -> (tensor<5x1x2x6xf32>, tensor<1x2x6xf32>)
  // expected-remark@+1 {{integerize-op fired, exact}}
  %5 = quant.qcast %4 : tensor<1x2x6xf32> to !qh
  func.return %5 : !qh
}

// Without it, or where a result is used as floats, the op stays on floats.
// CHECK-LABEL: func.func @used(
// CHECK: nn.gru {{.*}} -> (tensor<5x1x2x6xf32>, tensor<1x2x6xf32>)
func.func @used(%x: !qx, %w: !qw, %r: !qr) -> (tensor<5x1x2x6xf32>, !qh) {
  %b = nn.constant dense<1.0> : tensor<1x36xf32> : tensor<1x36xf32>
  %0 = quant.dcast %x : !qx to !f
  %1 = quant.dcast %w : !qw to tensor<1x18x3xf32>
  %2 = quant.dcast %r : !qr to tensor<1x18x6xf32>
  %3, %4 = nn.gru %0, %1, %2, %b last_states 1 : (!f, tensor<1x18x3xf32>, tensor<1x18x6xf32>, tensor<1x36xf32>) -> (tensor<5x1x2x6xf32>, tensor<1x2x6xf32>)
  // expected-remark@+1 {{the float result is also used elsewhere}}
  %5 = quant.qcast %4 : tensor<1x2x6xf32> to !qh
  func.return %3, %5 : tensor<5x1x2x6xf32>, !qh
}
