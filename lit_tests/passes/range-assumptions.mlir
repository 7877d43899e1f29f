// RUN: qopt-opt %s -p 'canonicalize' | filecheck %s --check-prefix=PROVED
// RUN: qopt-opt %s -p 'canonicalize{assume=profile}' --remarks --verify-diagnostics | filecheck %s
// RUN: not qopt-opt %s -p 'canonicalize{assume=hope}' 2>&1 | filecheck %s --check-prefix=BAD

// Ranges that a profile states are believed only when asked for, and named.
// BAD: error: pass 'canonicalize': option 'assume' is one of nothing, profile, not 'hope'

!a = tensor<4x!quant.uniform<i8:f32, 0.5>>

// PROVED-LABEL: func.func @of_an_op(
// PROVED: nn.relu
// CHECK-LABEL: func.func @of_an_op(
// CHECK-NOT: nn.relu
// CHECK: return
func.func @of_an_op(%x: !a, %y: !a) -> !a {
  %0 = nn.add %x, %y {nn.key = "sum", nn.assumed_range = array<f64: 0.0, 3.0>} : (!a, !a) -> !a
  // expected-remark@+1 {{redundant-clamp fired, exact (assuming the range of sum)}}
  %1 = nn.relu %0 : (!a) -> !a
  func.return %1 : !a
}

// PROVED-LABEL: func.func @of_an_argument(
// PROVED: nn.clip
// CHECK-LABEL: func.func @of_an_argument(
// CHECK-NOT: nn.clip
// CHECK: return
func.func @of_an_argument(%x: !a {nn.assumed_range = array<f64: -1.0, 1.0>}) -> !a {
  // expected-remark@+1 {{redundant-clamp fired, exact (assuming the range of argument 0)}}
  %0 = nn.clip %x min -2.0 max 2.0 : (!a) -> !a
  func.return %0 : !a
}
