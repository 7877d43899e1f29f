// RUN: qopt-opt %s | qopt-opt | filecheck %s

!x = tensor<1x4x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<3x4x!quant.uniform<i8:f32:0, {0.5, 0.25, 0.125}>>
!y = tensor<1x3x!quant.uniform<i8:f32, 0.25>>

// CHECK-LABEL: func.func @an_absent_bias
// CHECK: tflite.node "FULLY_CONNECTED" (%{{.*}}, %{{.*}}) version 12 absent [2] options {fused_activation_function = "RELU", keep_num_dims = false} {nn.key = "y"} : (tensor<1x4x!quant.uniform
func.func @an_absent_bias(%x: !x, %w: !w) -> !y {
  %y = tflite.node "FULLY_CONNECTED" (%x, %w) version 12 absent [2] options {fused_activation_function = "RELU", keep_num_dims = false} {nn.key = "y"} : (!x, !w) -> !y
  return %y : !y
}

// A variable, an op of others, and a constant of texts.
// CHECK-LABEL: func.func @state
// CHECK: tflite.node "VAR_HANDLE" () options {container = "", shared_name = "s"} : () -> tensor<1x!tflite.type<"RESOURCE">>
// CHECK: tflite.node "acme_mix" (%{{.*}}) custom "0102ff" : (tensor<1x!tflite.type<"RESOURCE">>) -> (tensor<?xf32>, tensor<ui8>)
// CHECK: tflite.node "pseudo_const" () custom "01000000" : () -> tensor<1x!tflite.type<"STRING">>
func.func @state() -> (tensor<?xf32>, tensor<1x!tflite.type<"STRING">>) {
  %h = tflite.node "VAR_HANDLE" () options {container = "", shared_name = "s"} : () -> tensor<1x!tflite.type<"RESOURCE">>
  %a, %b = tflite.node "acme_mix" (%h) custom "0102ff" : (tensor<1x!tflite.type<"RESOURCE">>) -> (tensor<?xf32>, tensor<ui8>)
  %t = tflite.node "pseudo_const" () custom "01000000" : () -> tensor<1x!tflite.type<"STRING">>
  return %a, %t : tensor<?xf32>, tensor<1x!tflite.type<"STRING">>
}
