// RUN: qopt-opt %s -p fold-interface --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p fold-interface --verify-numerics=4 | filecheck %s
// RUN: qopt-opt %s -p 'fold-interface{results=false}' | filecheck %s --check-prefix=ARGS
// RUN: qopt-opt %s -p 'fold-interface{arguments=false}' | filecheck %s --check-prefix=RESULTS

// Casts at the interface become the caller's business; the old types are kept on record.

!q = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!r = tensor<4x!quant.uniform<u8:f32, 0.25:128>>
!f = tensor<4xf32>
!rows = tensor<2x4x!quant.uniform<i8:f32:0, {0.5, 0.25}>>

// CHECK-LABEL: func.func @both(
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> {nn.float_type = tensor<4xf32>})
// CHECK-SAME: -> (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> {nn.float_type = tensor<4xf32>}) {
// CHECK-NEXT: nn.relu
// CHECK-NEXT: return
// ARGS-LABEL: func.func @both(
// ARGS-SAME: {nn.float_type = tensor<4xf32>}) -> tensor<4xf32>
// ARGS-NEXT: nn.relu
// ARGS-NEXT: quant.dcast
// RESULTS-LABEL: func.func @both(
// RESULTS-SAME: tensor<4xf32>) -> (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> {nn.float_type = tensor<4xf32>})
// RESULTS-NEXT: quant.qcast
// RESULTS-NEXT: nn.relu
// expected-remark@+2 {{fold-interface fired, exact}}
// expected-remark@+1 {{fold-interface fired, exact}}
func.func @both(%x: !f) -> !f {
  %0 = quant.qcast %x : !f to !q
  %1 = nn.relu %0 : (!q) -> !q
  %2 = quant.dcast %1 : !q to !f
  func.return %2 : !f
}

// Existing attributes stay; the rounding the caller must use is told.
// CHECK-LABEL: func.func @rounding_and_attributes(
// CHECK-SAME: {nn.float_type = tensor<2x4xf32>, nn.rounding = "half_away", nn.symbol = "image"}
// CHECK-NEXT: return
// expected-remark@+1 {{fold-interface fired, exact}}
func.func @rounding_and_attributes(%x: tensor<2x4xf32> {nn.symbol = "image"}) -> (!rows, !rows) {
  %0 = quant.qcast %x {quant.rounding = "half_away"} : tensor<2x4xf32> to !rows
  %1 = quant.qcast %x {quant.rounding = "half_away"} : tensor<2x4xf32> to !rows
  func.return %0, %1 : !rows, !rows
}

// CHECK-LABEL: func.func @dynamic(
// CHECK-SAME: tensor<?x4x!quant.uniform<i8:f32, 5.000000e-01>> {nn.float_type = tensor<?x4xf32>}
// expected-remark@+1 {{fold-interface fired}}
func.func @dynamic(%x: tensor<?x4xf32>) -> tensor<?x4x!quant.uniform<i8:f32, 0.5>> {
  %0 = quant.qcast %x : tensor<?x4xf32> to tensor<?x4x!quant.uniform<i8:f32, 0.5>>
  func.return %0 : tensor<?x4x!quant.uniform<i8:f32, 0.5>>
}

// A float use, two encodings, two roundings, no use: left alone.
// CHECK-LABEL: func.func @not_only_codes(
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<4xf32>, %{{[a-z0-9]+}}: tensor<4xf32>, %{{[a-z0-9]+}}: tensor<4xf32>, %{{[a-z0-9]+}}: tensor<4xf32>)
func.func @not_only_codes(%x: !f, %y: !f, %z: !f, %unused: !f) -> (!q, !f, !q, !r, !q, !q) {
  %0 = quant.qcast %x : !f to !q
  %1 = nn.tanh %x : (!f) -> !f
  %2 = quant.qcast %y : !f to !q
  %3 = quant.qcast %y : !f to !r
  %4 = quant.qcast %z : !f to !q
  %5 = quant.qcast %z {quant.rounding = "half_up"} : !f to !q
  func.return %0, %1, %2, %3, %4, %5 : !q, !f, !q, !r, !q, !q
}

// A dequantize that something else reads stays for it; a result given twice is folded twice.
// CHECK-LABEL: func.func @shared_result(
// CHECK-SAME: -> (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> {nn.float_type = tensor<4xf32>}, tensor<4xf32>, tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>> {nn.float_type = tensor<4xf32>})
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: nn.tanh
// expected-remark@+2 {{fold-interface fired, exact}}
// expected-remark@+1 {{fold-interface fired, exact}}
func.func @shared_result(%x: !q) -> (!f, !f, !f) {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.tanh %0 : (!f) -> !f
  func.return %0, %1, %0 : !f, !f, !f
}

// CHECK: func.func private @declared(tensor<4xf32>) -> tensor<4xf32>
func.func private @declared(!f) -> !f

// CHECK-LABEL: func.func @called(
// CHECK-SAME: tensor<4xf32>)
// CHECK-NEXT: quant.qcast
// expected-remark@+1 {{fold-interface refused [called]: the module calls this function}}
func.func @called(%x: !f) -> !q {
  %0 = quant.qcast %x : !f to !q
  func.return %0 : !q
}

// CHECK-LABEL: func.func @caller(
// CHECK-SAME: tensor<4xf32>)
func.func @caller(%x: !f) -> !q {
  %0 = func.call @called(%x) : (!f) -> !q
  func.return %0 : !q
}

// CHECK-LABEL: func.func @branches(
// CHECK-SAME: tensor<4xf32>
// expected-remark@+1 {{fold-interface refused [control-flow]: several blocks}}
func.func @branches(%x: !f) -> !q {
  %0 = quant.qcast %x : !f to !q
  cf.br ^bb1(%0 : !q)
^bb1(%y: !q):
  func.return %y : !q
}
