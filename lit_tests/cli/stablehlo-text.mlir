// RUN: qopt-opt %s | filecheck %s
// RUN: qopt-opt %s | qopt-opt | filecheck %s
// RUN: qopt-opt %s --mlir-print-op-generic | qopt-opt | filecheck %s

// CHECK-LABEL: @directives
func.func @directives(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>, %b: tensor<2x3xi1>, %t: !stablehlo.token) -> tensor<2x2xf32> {
  // CHECK-NEXT: stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK-NEXT: stablehlo.add %arg0, %arg0 : tensor<2x3xf32>
  %1 = stablehlo.add %x, %x : tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.select %arg2, %1, %arg0 : tensor<2x3xi1>, tensor<2x3xf32>
  %2 = stablehlo.select %b, %1, %x : tensor<2x3xi1>, tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.complex %2, %arg0 : tensor<2x3xcomplex<f32>>
  %3 = stablehlo.complex %2, %x : tensor<2x3xcomplex<f32>>
  // CHECK-NEXT: stablehlo.slice %arg0 [0:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>
  %4 = stablehlo.slice %x [0:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>
  // CHECK-NEXT: stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, HIGH] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %5 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0], precision = [DEFAULT, HIGH] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  // CHECK-NEXT: stablehlo.compare LT, %4, %5, FLOAT : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
  %6 = stablehlo.compare LT, %4, %5, FLOAT : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
  // CHECK-NEXT: stablehlo.reduce(%arg0 init: %0) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %7 = stablehlo.reduce(%x init: %0) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  // CHECK-NEXT: stablehlo.reduce_precision %7, format = e5m10 : tensor<2xf32>
  %8 = stablehlo.reduce_precision %7, format = e5m10 : tensor<2xf32>
  // CHECK-NEXT: stablehlo.custom_call @foo(%8) {backend_config = "x"} : (tensor<2xf32>) -> tensor<2xf32>
  %9 = stablehlo.custom_call @foo(%8) {backend_config = "x"} : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: stablehlo.tuple %9, %arg3 : tuple<tensor<2xf32>, !stablehlo.token>
  %10 = stablehlo.tuple %9, %t : tuple<tensor<2xf32>, !stablehlo.token>
  // CHECK-NEXT: stablehlo.get_tuple_element %10[0] : (tuple<tensor<2xf32>, !stablehlo.token>) -> tensor<2xf32>
  %11 = stablehlo.get_tuple_element %10[0] : (tuple<tensor<2xf32>, !stablehlo.token>) -> tensor<2xf32>
  // CHECK-NEXT: stablehlo.optimization_barrier %4, %5 : tensor<2x2xf32>, tensor<2x2xf32>
  %12:2 = stablehlo.optimization_barrier %4, %5 : tensor<2x2xf32>, tensor<2x2xf32>
  // CHECK-NEXT: chlo.erf %4 : tensor<2x2xf32> -> tensor<2x2xf32>
  %13 = chlo.erf %4 : tensor<2x2xf32> -> tensor<2x2xf32>
  return %5 : tensor<2x2xf32>
}

// CHECK-LABEL: @regions
func.func @regions(%x: tensor<2x3xi32>, %n: tensor<i32>) -> tensor<i32> {
  // CHECK: stablehlo.reduce(%arg0 init: %arg1) across dimensions = [0, 1] : (tensor<2x3xi32>, tensor<i32>) -> tensor<i32>
  // CHECK-SAME: reducer([[A:%[a-z0-9]+]]: tensor<i32>, [[B:%[a-z0-9]+]]: tensor<i32>)
  // CHECK-NEXT: stablehlo.subtract [[B]], [[A]]
  %0 = stablehlo.reduce(%x init: %n) across dimensions = [0, 1] : (tensor<2x3xi32>, tensor<i32>) -> tensor<i32>
   reducer(%a: tensor<i32>, %b: tensor<i32>) {
    %1 = stablehlo.subtract %b, %a : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }
  // CHECK: stablehlo.while([[I:%[a-z0-9]+]] = %arg1) : tensor<i32>
  // CHECK: stablehlo.compare NE, [[I]], %0
  // CHECK: } do {
  // CHECK-NEXT: stablehlo.add [[I]], [[I]]
  %2 = stablehlo.while(%i = %n) : tensor<i32> cond {
    %3 = stablehlo.compare NE, %i, %0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  } do {
    %3 = stablehlo.add %i, %i : tensor<i32>
    stablehlo.return %3 : tensor<i32>
  }
  return %2 : tensor<i32>
}

// Elements of a quantized constant are its codes: the type of the result is another.
// CHECK-LABEL: @quantized
// CHECK-NEXT: stablehlo.constant() <{value = dense<3> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
func.func @quantized() -> tensor<2x!quant.uniform<i8:f32, 0.5>> {
  %0 = stablehlo.constant() <{value = dense<3> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  return %0 : tensor<2x!quant.uniform<i8:f32, 0.5>>
}
