// RUN: qopt-opt %s --split-input-file --verify-diagnostics

func.func @an_absent_input_behind_the_last(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'tflite.node' op absent must be increasing numbers of inputs below 2, but is [2]}}
  %y = tflite.node "EXP" (%x) absent [2] : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @no_name(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'tflite.node' op needs the name of an op}}
  %y = tflite.node "" (%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
