// RUN: qopt-opt --split-input-file --verify-diagnostics %s
// RUN: not qopt-opt --split-input-file %s 2>&1 | filecheck %s

// CHECK: verify_diagnostics.mlir:7:8: error: 'nn.relu' op
func.func @shape(%x: tensor<1x3xf32>) -> tensor<1x4xf32> {
  // expected-error @+1 {{'nn.relu' op result #0 has shape 1x4}}
  %0 = nn.relu %x : (tensor<1x3xf32>) -> tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}

// -----

func.func @order(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = nn.relu %1 : (tensor<3xf32>) -> tensor<3xf32> // expected-error {{operand #0 does not dominate this use}}
  // expected-note @below {{operand #0 is defined here}}
  %1 = nn.relu %x : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// expected-error-re @below {{Operation nn.{{[a-z]+}} is not registered}}
%0 = nn.rellu %1 : (tensor<3xf32>) -> tensor<3xf32>
