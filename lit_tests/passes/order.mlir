// RUN: qopt-opt %s -p integerize,fold-rescale --remarks --verify-diagnostics | filecheck %s
// RUN: qopt-opt %s -p integerize,fold-rescale --verify-numerics=4 | filecheck %s

// Ops that tell how elements compare see the codes below a strictly monotone map.

!a = tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<?x4x!quant.uniform<i8:f32, 0.75:3>>
!f = tensor<?x4xf32>
!o = tensor<?x4xi1>
!i = tensor<?x1xi64>
!rows = tensor<2x4x!quant.uniform<i8:f32:0, {0.5:3, 0.25:1}>>
!rows_fine = tensor<2x4x!quant.uniform<i16:f32:0, {0.25:3, 0.25:1}>>
!wide = tensor<4x!quant.uniform<i32:f32, 0.5>>

// -- dequantize -----------------------------------------------------------------------

// CHECK-LABEL: func.func @dequantized(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.arg_max [[X]] axis 1 : {{.*}} -> tensor<?x1xi64>
// CHECK-NEXT: return [[V0]]
func.func @dequantized(%x: !a) -> !i {
  %0 = quant.dcast %x : !a to !f
  // expected-remark@+1 {{order-of-dequantize fired, exact}}
  %1 = nn.arg_max %0 axis 1 : (!f) -> !i
  func.return %1 : !i
}

// CHECK-LABEL: func.func @rows(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<2x4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.arg_min [[X]] axis -1 : {{.*}} -> tensor<2x1xi64>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.arg_min [[V0]] : {{.*}} -> tensor<1x4xi64>
// CHECK-NEXT: return [[V1]], [[V2]]
func.func @rows(%x: !rows) -> (tensor<2x1xi64>, tensor<1x4xi64>) {
  %0 = quant.dcast %x : !rows to tensor<2x4xf32>
  // expected-remark@+1 {{order-of-dequantize fired, exact}}
  %1 = nn.arg_min %0 axis -1 : (tensor<2x4xf32>) -> tensor<2x1xi64>
  // expected-remark@+1 {{order-of-dequantize refused [select-params]: 'nn.arg_min' reads across dimension 0}}
  %2 = nn.arg_min %0 axis 0 : (tensor<2x4xf32>) -> tensor<1x4xi64>
  func.return %1, %2 : tensor<2x1xi64>, tensor<1x4xi64>
}

// CHECK-LABEL: func.func @unlike(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<?x4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.dcast [[Y]] : {{.*}} to tensor<?x4xf32>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.compare [[V0]], [[V1]] mode le : {{.*}} -> tensor<?x4xi1>
// CHECK-NEXT: return [[V2]]
func.func @unlike(%x: !a, %y: !b) -> !o {
  %0 = quant.dcast %x : !a to !f
  %1 = quant.dcast %y : !b to !f
  // expected-remark@+1 {{order-of-dequantize refused [storage-mismatch]: operands have different qparams}}
  %2 = nn.compare %0, %1 mode le : (!f, !f) -> !o
  func.return %2 : !o
}

// CHECK-LABEL: func.func @beside_a_float(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<?x4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.compare [[V0]], [[Y]] mode le : {{.*}} -> tensor<?x4xi1>
// CHECK-NEXT: return [[V1]]
func.func @beside_a_float(%x: !a, %y: !f) -> !o {
  %0 = quant.dcast %x : !a to !f
  // expected-remark@+1 {{order-of-dequantize refused [operands]: not all that it compares are codes mapped alike}}
  %1 = nn.compare %0, %y mode le : (!f, !f) -> !o
  func.return %1 : !o
}

// CHECK-LABEL: func.func @too_wide_for_floats(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.arg_max [[V0]] : {{.*}} -> tensor<1xi64>
// CHECK-NEXT: return [[V1]]
func.func @too_wide_for_floats(%x: !wide) -> tensor<1xi64> {
  %0 = quant.dcast %x : !wide to tensor<4xf32>
  // expected-remark@+1 {{order-of-dequantize refused [float-path]: the floats do not tell all codes apart}}
  %1 = nn.arg_max %0 : (tensor<4xf32>) -> tensor<1xi64>
  func.return %1 : tensor<1xi64>
}

// -- rescale --------------------------------------------------------------------------

// CHECK-LABEL: func.func @kept_apart(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = nn.compare [[X]], [[Y]] mode eq : {{.*}} -> tensor<2x4xi1>
// CHECK-NEXT: return [[V0]]
func.func @kept_apart(%x: !rows, %y: !rows) -> tensor<2x4xi1> {
  %0 = quant.rescale %x : !rows to !rows_fine
  %1 = quant.rescale %y : !rows to !rows_fine
  // expected-remark@+1 {{order-of-rescale fired, exact}}
  %2 = nn.compare %0, %1 mode eq : (!rows_fine, !rows_fine) -> tensor<2x4xi1>
  func.return %2 : tensor<2x4xi1>
}

// CHECK-LABEL: func.func @merged(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<?x4x!quant.uniform<i8:f32, 7.500000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[Y]] : {{.*}} to tensor<?x4x!quant.uniform<i8:f32, 7.500000e-01:3>>
// CHECK-NEXT: [[V2:%[a-z0-9_]+]] = nn.compare [[V0]], [[V1]] mode ne : {{.*}} -> tensor<?x4xi1>
// CHECK-NEXT: return [[V2]]
func.func @merged(%x: !a, %y: !a) -> !o {
  %0 = quant.rescale %x : !a to !b
  %1 = quant.rescale %y : !a to !b
  // expected-remark@+1 {{order-of-rescale refused [merges]: the rescale makes one code of several}}
  %2 = nn.compare %0, %1 mode ne : (!b, !b) -> !o
  func.return %2 : !o
}

// CHECK-LABEL: func.func @several_uses(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<2x4x!quant.uniform<i16:f32:0, {2.500000e-01:3,2.500000e-01:1}>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.arg_max [[X]] axis 1 keepdims false last true : {{.*}} -> tensor<2xi64>
// CHECK-NEXT: return [[V0]], [[V1]]
func.func @several_uses(%x: !rows) -> (!rows_fine, tensor<2xi64>) {
  %0 = quant.rescale %x : !rows to !rows_fine
  // expected-remark@+1 {{order-of-rescale fired, exact}}
  %1 = nn.arg_max %0 axis 1 keepdims false last true : (!rows_fine) -> tensor<2xi64>
  func.return %0, %1 : !rows_fine, tensor<2xi64>
}

// CHECK-LABEL: func.func @one_is_not_rescaled(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-SAME: [[Y:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<?x4x!quant.uniform<i8:f32, 7.500000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = nn.compare [[V0]], [[Y]] mode gt : {{.*}} -> tensor<?x4xi1>
// CHECK-NEXT: return [[V1]]
func.func @one_is_not_rescaled(%x: !a, %y: !b) -> !o {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{order-of-rescale refused [operands]}}
  %1 = nn.compare %0, %y mode gt : (!b, !b) -> !o
  func.return %1 : !o
}

// -- top-k ----------------------------------------------------------------------------

// CHECK-LABEL: func.func @indices_of_merged(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.rescale [[X]] : {{.*}} to tensor<?x4x!quant.uniform<i8:f32, 7.500000e-01:3>>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]]:2 = nn.top_k [[V0]] k 2 : {{.*}} -> (tensor<?x2x!quant.uniform<i8:f32, 7.500000e-01:3>>, tensor<?x2xi64>)
// CHECK-NEXT: return [[V1]]#0, [[V1]]#1
func.func @indices_of_merged(%x: tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>) -> (tensor<?x2x!quant.uniform<i8:f32, 0.75:3>>, tensor<?x2xi64>) {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{order-of-rescale refused [merges]: the rescale makes one code of several}}
  %1:2 = nn.top_k %0 k 2 : (!b) -> (tensor<?x2x!quant.uniform<i8:f32, 0.75:3>>, tensor<?x2xi64>)
  func.return %1#0, %1#1 : tensor<?x2x!quant.uniform<i8:f32, 0.75:3>>, tensor<?x2xi64>
}

// CHECK-LABEL: func.func @values_only(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]]:2 = nn.top_k [[X]] k 2 : {{.*}} -> (tensor<?x2x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<?x2xi64>)
// CHECK-NEXT: [[V1:%[a-z0-9_]+]] = quant.rescale [[V0]]#0 : {{.*}} to tensor<?x2x!quant.uniform<i8:f32, 7.500000e-01:3>>
// CHECK-NEXT: return [[V1]]
func.func @values_only(%x: !a) -> tensor<?x2x!quant.uniform<i8:f32, 0.75:3>> {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{order-of-rescale fired, exact}}
  %1:2 = nn.top_k %0 k 2 : (!b) -> (tensor<?x2x!quant.uniform<i8:f32, 0.75:3>>, tensor<?x2xi64>)
  func.return %1#0 : tensor<?x2x!quant.uniform<i8:f32, 0.75:3>>
}

// CHECK-LABEL: func.func @values_at_the_interface(
// CHECK-SAME: [[X:%[a-z0-9_]+]]:
// CHECK-NEXT: [[V0:%[a-z0-9_]+]] = quant.dcast [[X]] : {{.*}} to tensor<?x4xf32>
// CHECK-NEXT: [[V1:%[a-z0-9_]+]]:2 = nn.top_k [[V0]] k 2 : {{.*}} -> (tensor<?x2xf32>, tensor<?x2xi64>)
// CHECK-NEXT: return [[V1]]#0
func.func @values_at_the_interface(%x: !a) -> tensor<?x2xf32> {
  %0 = quant.dcast %x : !a to !f
  // expected-remark@+1 {{order-of-dequantize refused [open-region]: the float result is not quantized again}}
  %1:2 = nn.top_k %0 k 2 : (!f) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  func.return %1#0 : tensor<?x2xf32>
}
