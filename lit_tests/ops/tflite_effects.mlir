// RUN: qopt-opt %s --cse --dce | filecheck %s

// Equal ops are one, and ops that nothing reads go, but for what may have a state.
// CHECK-LABEL: func.func @effects
// CHECK-COUNT-1: tflite.node "EXP"
// CHECK-NOT: tflite.node "NEG"
// CHECK: tflite.node "CALL_ONCE"
// CHECK: tflite.node "pseudo_variable"
// CHECK: tflite.node "UNIDIRECTIONAL_SEQUENCE_LSTM"
// CHECK: tflite.node "UNIDIRECTIONAL_SEQUENCE_LSTM"
// CHECK: tflite.node "acme_log"
// CHECK: return
func.func @effects(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = tflite.node "EXP" (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = tflite.node "EXP" (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %n = tflite.node "NEG" (%x) : (tensor<4xf32>) -> tensor<4xf32>
  tflite.node "CALL_ONCE" () options {init_subgraph_index = @effects} : () -> ()
  %v = tflite.node "pseudo_variable" () : () -> tensor<4xf32>
  %l = tflite.node "UNIDIRECTIONAL_SEQUENCE_LSTM" (%x, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %m = tflite.node "UNIDIRECTIONAL_SEQUENCE_LSTM" (%x, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = tflite.node "acme_log" (%x) custom "00" : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b, %l, %m : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
