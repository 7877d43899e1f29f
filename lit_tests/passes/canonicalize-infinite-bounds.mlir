// RUN: qopt-opt %s -p canonicalize --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p canonicalize --verify-numerics=6 > %t

// The larger of x and -inf is x, as an export of JAX has it in front of a softmax; that of x and
// inf stays.

// CHECK-LABEL: func.func @main
// CHECK-DAG:     %[[HIGH:.*]] = nn.constant dense<[0x7F800000]>
// CHECK-DAG:     %[[LOW:.*]] = nn.constant dense<0xFF800000>
// CHECK:         %[[A:.*]] = nn.maximum %arg0, %[[HIGH]]
// CHECK:         %[[B:.*]] = nn.minimum %arg0, %[[LOW]]
// CHECK:         return %arg0, %arg0, %[[A]], %[[B]]
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %c = nn.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %d = nn.constant dense<0x7F800000> : tensor<1xf32> : tensor<1xf32>
  // expected-remark@+1 {{clamp-by-constant fired, exact}}
  %0 = nn.maximum %c, %x : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  // expected-remark@+1 {{clamp-by-constant fired, exact}}
  %1 = nn.minimum %x, %d : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %2 = nn.maximum %x, %d : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %3 = nn.minimum %x, %c : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %0, %1, %2, %3 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
