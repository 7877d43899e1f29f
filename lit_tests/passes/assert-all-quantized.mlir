// RUN: not qopt-opt %s -p assert-all-quantized 2>&1 | filecheck %s

// CHECK: error: 2 of 5 ops are float
// CHECK-NEXT: note: 'root' (nn.sqrt) [float-result]: its operands are codes, its result is not quantized
// CHECK-NEXT: note: 'outside' (nn.exp) [no-profile]: it takes and gives floats
!f = tensor<4xf32>
!q = tensor<4x!quant.uniform<u8:f32, 0.5>>
func.func @main(%x: !q, %y: !f) -> (!q, !q, !f, !f) {
  %0 = quant.dcast %x : !q to !f
  %1 = nn.add %0, %0 {nn.key = "sum"} : (!f, !f) -> !f
  %2 = nn.relu %1 {nn.key = "relu"} : (!f) -> !f
  %3 = quant.qcast %2 : !f to !q
  %4 = nn.relu %3 {nn.key = "codes"} : (!q) -> !q
  %5 = nn.sqrt %0 {nn.key = "root"} : (!f) -> !f
  %6 = nn.exp %y {nn.key = "outside"} : (!f) -> !f
  func.return %3, %4, %5, %6 : !q, !q, !f, !f
}
