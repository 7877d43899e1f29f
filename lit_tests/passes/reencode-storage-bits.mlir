// RUN: qopt-opt %s -p "reencode-storage{activations=i8 weights=i8}" --verify-numerics=4 | FileCheck %s
// RUN: qopt-opt %s -p "reencode-storage{activations=i8 weights=i8},reencode-storage{activations=i8 weights=i8}" --verify-numerics=4 | FileCheck %s

!u = tensor<4x!quant.uniform<u8:f32, 1.0:255>>
!v = tensor<4x!quant.uniform<u8:f32, 0.25:255>>

// Codes of an argument that are only read again as others are renumbered before, and a second
// run leaves what the first left at the interface.

// CHECK-LABEL: func.func @read_again
// CHECK: quant.rescale %{{.*}} to tensor<4x!quant.uniform<i8:f32, 1.000000e+00:127>>
// CHECK-NEXT: quant.scast
// CHECK-NEXT: quant.scast {{.*}} to tensor<4x!quant.uniform<i8:f32, 2.500000e-01:127>>
// CHECK-NEXT: quant.rescale {{.*}} to tensor<4x!quant.uniform<u8:f32, 2.500000e-01:255>>
// CHECK-NEXT: return
func.func @read_again(%x: !u) -> !v {
  %0 = quant.scast %x : !u to tensor<4xi8>
  %1 = quant.scast %0 : tensor<4xi8> to !v
  return %1 : !v
}

// CHECK-LABEL: func.func @returned
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: nn.floor
// CHECK-NEXT: quant.rescale
// CHECK-NEXT: return
func.func @returned(%x: !u) -> !v {
  %0 = nn.floor %x : (!u) -> !v
  return %0 : !v
}
