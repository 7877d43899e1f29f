// RUN: qopt-opt %s -p divide-by-scale --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p canonicalize | filecheck %s
// RUN: qopt-opt %s -p canonicalize --verify-numerics=6 > %t

// Of powers of two reciprocals are exact; others are multiplied by, as the model says.

!q = !quant.uniform<u8:f32, 0.1:3>
!half = !quant.uniform<u8:f32, 0.5:3>
!rows = !quant.uniform<i8:f32:0, {0.25, 4.0:2}>
!mixed = !quant.uniform<i8:f32:0, {0.25, 0.3}>

// CHECK-LABEL: func.func @casts(
// CHECK-NEXT: quant.qcast %{{[^{]*}} {quant.rounding = "reciprocal"} :
// CHECK-NEXT: quant.qcast %{{[^{]*}} : tensor<2xf32> to
// CHECK-NEXT: quant.qcast %{{[^{]*}} : tensor<2xf32> to
// CHECK-NEXT: quant.qcast %{{[^{]*}} {quant.rounding = "reciprocal"} :
func.func @casts(%x: tensor<2xf32>) -> (tensor<2x!q>, tensor<2x!half>, tensor<2x!rows>, tensor<2x!mixed>) {
  // expected-remark@+1 {{reciprocal-to-quotient refused [numerics]: would be ties (divides, where the model multiplies by a rounded reciprocal), but only exact is allowed}}
  %0 = quant.qcast %x {quant.rounding = "reciprocal"} : tensor<2xf32> to tensor<2x!q>
  // expected-remark@+1 {{reciprocal-to-quotient fired, exact}}
  %1 = quant.qcast %x {quant.rounding = "reciprocal"} : tensor<2xf32> to tensor<2x!half>
  // expected-remark@+1 {{reciprocal-to-quotient fired, exact}}
  %2 = quant.qcast %x {quant.rounding = "reciprocal"} : tensor<2xf32> to tensor<2x!rows>
  // expected-remark@+1 {{reciprocal-to-quotient refused [numerics]: would be ties (divides, where the model multiplies by a rounded reciprocal), but only exact is allowed}}
  %3 = quant.qcast %x {quant.rounding = "reciprocal"} : tensor<2xf32> to tensor<2x!mixed>
  return %0, %1, %2, %3 : tensor<2x!q>, tensor<2x!half>, tensor<2x!rows>, tensor<2x!mixed>
}

// In the reals, which this module is in, a rescale divides whatever it says.
// CHECK-LABEL: func.func @real(
// CHECK-NEXT: quant.rescale %{{[^ ]*}} : tensor<2x
func.func @real(%x: tensor<2x!half>) -> tensor<2x!q> {
  // expected-remark@+1 {{reciprocal-to-quotient fired, exact}}
  %0 = quant.rescale %x rounding reciprocal : tensor<2x!half> to tensor<2x!q>
  return %0 : tensor<2x!q>
}
