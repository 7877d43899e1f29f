// RUN: qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json}' --remarks --verify-diagnostics | filecheck %s
// RUN: not qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json require-all}' 2>&1 | filecheck %s --check-prefix=ALL
// RUN: not qopt-opt %s -p 'cse,apply-profile{file=%S/Inputs/apply-profile.json keep-float=nothing}' 2>&1 | filecheck %s --check-prefix=KEEP
// RUN: not qopt-opt %s -p 'apply-profile' 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not qopt-opt %s -p 'apply-profile{file=%S/Inputs/apply-profile.json weights=i5}' 2>&1 | filecheck %s --check-prefix=OPTION

// The convolution rounds to the range behind its relu; the square root would turn small
// errors around zero into large ones.

// ALL: error: 1 ops are left float
// ALL: note: 'root' (nn.sqrt) [amplifies]: no bound for what a step of the input does
// KEEP: error: no op has the key 'nothing' or is of that kind, which is to stay float
// FILE: error: pass 'apply-profile' needs option 'file'
// OPTION: error: pass 'apply-profile': weights: one of i8, u8, i4, u4, i3, u3, i16, u2, i2, nf4, mxfp4, mxint8, not 'i5'

// CHECK-LABEL: func.func @main(
// CHECK: %[[Q:.*]] = quant.qcast %arg0
// CHECK-NEXT: %[[D:.*]] = quant.dcast %[[Q]]
// CHECK: nn.constant dense<{{.*}}64{{.*}}-127{{.*}}> : tensor<2x2x1x1xi8> : tensor<2x2x1x1x!quant.uniform<i8:f32:0,
// CHECK: nn.constant dense<[864, -6909]> : tensor<2xi32>
// CHECK: %[[C:.*]] = nn.conv2d %[[D]], {{.*}} {nn.key = "conv", nn.qparams = {conv = !quant.uniform<u8:f32,
// CHECK-NEXT: %[[R:.*]] = nn.relu %[[C]]
// CHECK-NEXT: %[[QR:.*]] = quant.qcast %[[R]] : {{.*}} to tensor<1x2x2x2x!quant.uniform<u8:f32, 0.011176470667123795>>
// CHECK-NEXT: %[[DR:.*]] = quant.dcast %[[QR]]
// CHECK-NEXT: nn.sqrt %[[DR]]
func.func @main(%x: tensor<1x2x2x2xf32> {nn.name = "x"}) -> tensor<1x2x2x2xf32> {
  %w = nn.constant dense<[[[[0.5]], [[-1.0]]], [[[0.25]], [[0.0]]]]> : tensor<2x2x1x1xf32> : tensor<2x2x1x1xf32>
  %b = nn.constant dense<[0.1, -0.2]> : tensor<2xf32> : tensor<2xf32>
  %0 = nn.conv2d %x, %w, %b {nn.key = "conv"} : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %1 = nn.relu %0 {nn.key = "relu"} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  // expected-remark@+1 {{left float: no bound for what a step of the input does}}
  %2 = nn.sqrt %1 {nn.key = "root"} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  func.return %2 : tensor<1x2x2x2xf32>
}
