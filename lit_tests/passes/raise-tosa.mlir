// RUN: qopt-opt %s -p raise-tosa,dce --remarks=%t | filecheck %s
// RUN: filecheck %s --check-prefix=WHY --input-file=%t
// RUN: qopt-opt %s -p raise-tosa,dce | qopt-opt -p 'canonicalize,convert-rescale{form=real},combine-rescale,canonicalize,dce' | filecheck %s --check-prefix=JOINED

// Free scales: those of the weights make both sides equal, channel by channel. Layouts are renamed,
// and transposed where the function takes and gives channels last.
// CHECK-LABEL: @convolution(%arg0: tensor<1x4x4x2x!quant.uniform<i8:f32, 1.000000e+00:-3>>) -> tensor<1x3x3x2x!quant.uniform<i8:f32, 1.000000e+00:5>>
// CHECK: nn.transpose %arg0 perm [0, 3, 1, 2]
// CHECK: nn.constant {{.*}} : tensor<2x2x2x2x!quant.uniform<i8:f32:0, {2.500000e-01,1.250000e-01}>>
// CHECK-NEXT: [[SUMS:%[0-9]+]] = nn.conv2d {{.*}} -> tensor<1x2x3x3x!quant.uniform<i32:f32:1, {2.500000e-01,1.250000e-01}>>
// CHECK-NEXT: [[Y:%[0-9]+]] = quant.rescale [[SUMS]] rounding half_up multiplier [1073741824, 1073741824] shift [32, 33]
// CHECK-NEXT: nn.transpose [[Y]] perm [0, 2, 3, 1]
// CHECK-NEXT: return
// JOINED-LABEL: @convolution
// JOINED: nn.conv2d {{.*}} rounding half_up {{.*}} -> tensor<1x2x3x3x!quant.uniform<i8:f32, 1.000000e+00:5>>
// JOINED-NOT: quant.rescale
func.func @convolution(%x: tensor<1x4x4x2xi8>) -> tensor<1x3x3x2xi8> {
  %w = "tosa.const"() <{values = dense<[[[[1, -2], [3, 4]], [[5, 6], [7, 8]]], [[[9, 1], [2, 3]], [[4, 5], [6, 7]]]]> : tensor<2x2x2x2xi8>}> : () -> tensor<2x2x2x2xi8>
  %b = "tosa.const"() <{values = dense<0> : tensor<2xi32>}> : () -> tensor<2xi32>
  %zx = "tosa.const"() <{values = dense<-3> : tensor<1xi8>}> : () -> tensor<1xi8>
  %zw = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %m = "tosa.const"() <{values = dense<1073741824> : tensor<2xi32>}> : () -> tensor<2xi32>
  %k = "tosa.const"() <{values = dense<[32, 33]> : tensor<2xi8>}> : () -> tensor<2xi8>
  %zi = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %zo = "tosa.const"() <{values = dense<5> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = "tosa.conv2d"(%x, %w, %b, %zx, %zw) <{acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x4x4x2xi8>, tensor<2x2x2x2xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x3x2xi32>
  %1 = "tosa.rescale"(%0, %m, %k, %zi, %zo) <{input_unsigned = false, output_unsigned = false, per_channel = true, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x3x3x2xi32>, tensor<2xi32>, tensor<2xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x3x3x2xi8>
  func.return %1 : tensor<1x3x3x2xi8>
}

// Terms on one scale of 32 bits: all pairs of codes are looked at.
// CHECK-LABEL: @sum
// CHECK: nn.add {{.*}} -> tensor<4x!quant.uniform<i32:f32,
// CHECK-NEXT: quant.rescale {{.*}} rounding half_up
// JOINED-LABEL: @sum
// JOINED: nn.add %arg0, %arg1 rounding half_up : (tensor<4x!quant.uniform<i8:f32, 1.000000e+00>>, tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<4x!quant.uniform<i8:f32, 2.000000e+00>>
// JOINED-NEXT: return
func.func @sum(%x: tensor<4xi8>, %y: tensor<4xi8>) -> tensor<4xi8> {
  %m = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
  %a = "tosa.const"() <{values = dense<12> : tensor<1xi8>}> : () -> tensor<1xi8>
  %b = "tosa.const"() <{values = dense<13> : tensor<1xi8>}> : () -> tensor<1xi8>
  %c = "tosa.const"() <{values = dense<49> : tensor<1xi8>}> : () -> tensor<1xi8>
  %z8 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %z32 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %0 = "tosa.rescale"(%x, %m, %a, %z8, %z32) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<4xi32>
  %1 = "tosa.rescale"(%y, %m, %b, %z8, %z32) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<4xi32>
  %2 = "tosa.add"(%0, %1) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %3 = "tosa.rescale"(%2, %m, %c, %z32, %z8) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<4xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<4xi8>
  func.return %3 : tensor<4xi8>
}

// One value with two users that read it with other zero points: the bits are read again.
// CHECK-LABEL: @two_users
// CHECK: [[BITS:%[0-9]+]] = quant.scast %arg0 : tensor<4x!quant.uniform<i8:f32, 1.000000e+00:-3>> to tensor<4xi8>
// CHECK: [[SIX:%[0-9]+]] = quant.scast [[BITS]] : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 1.000000e+00:6>>
// CHECK: quant.rescale [[SIX]] rounding gemmlowp
func.func @two_users(%x: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xi8>) {
  %m = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
  %k = "tosa.const"() <{values = dense<31> : tensor<1xi8>}> : () -> tensor<1xi8>
  %z3 = "tosa.const"() <{values = dense<-3> : tensor<1xi8>}> : () -> tensor<1xi8>
  %z6 = "tosa.const"() <{values = dense<6> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = "tosa.rescale"(%x, %m, %k, %z3, %z6) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4xi8>
  %1 = "tosa.rescale"(%x, %m, %k, %z6, %z3) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<DOUBLE_ROUND>, scale32 = true}> : (tensor<4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4xi8>
  func.return %0, %1 : tensor<4xi8>, tensor<4xi8>
}

// A mean that the reciprocals of TOSA give exactly, and codes outside of which nothing is clamped.
// CHECK-LABEL: @pool
// CHECK: nn.avg_pool2d {{.*}} rounding half_away kernel [2, 2] strides [2, 2]
// CHECK-NEXT: nn.relu
func.func @pool(%x: tensor<1x4x4x2xi8>) -> tensor<1x2x2x2xi8> {
  %z = "tosa.const"() <{values = dense<7> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = "tosa.avg_pool2d"(%x, %z, %z) <{acc_type = i32, kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>}> : (tensor<1x4x4x2xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x2xi8>
  %1 = "tosa.clamp"(%0) <{min_val = 7 : i8, max_val = 127 : i8, nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<1x2x2x2xi8>) -> tensor<1x2x2x2xi8>
  %m = "tosa.const"() <{values = dense<1610612736> : tensor<1xi32>}> : () -> tensor<1xi32>
  %k = "tosa.const"() <{values = dense<31> : tensor<1xi8>}> : () -> tensor<1xi8>
  %2 = "tosa.rescale"(%1, %m, %k, %z, %z) <{input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true}> : (tensor<1x2x2x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x2xi8>
  func.return %2 : tensor<1x2x2x2xi8>
}

// Extents that are not known, and transposes that only turn dimensions.
// CHECK-LABEL: @dynamic
// CHECK: nn.mul %arg0, %arg0 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: nn.tanh
// CHECK-NEXT: return
func.func @dynamic(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %s = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = "tosa.transpose"(%x) <{perms = array<i32: 1, 0>}> : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %1 = "tosa.mul"(%0, %0, %s) : (tensor<4x?xf32>, tensor<4x?xf32>, tensor<1xi8>) -> tensor<4x?xf32>
  %2 = "tosa.tanh"(%1) : (tensor<4x?xf32>) -> tensor<4x?xf32>
  %3 = "tosa.transpose"(%2) <{perms = array<i32: 1, 0>}> : (tensor<4x?xf32>) -> tensor<?x4xf32>
  func.return %3 : tensor<?x4xf32>
}

// What has no counterpart stays, on plain integers.
// CHECK-LABEL: @stays
// CHECK: tosa.conv2d
// CHECK: tosa.intdiv
// WHY: "code": "storage"
// WHY: "reason": "it sums products of i16 and i8 in i48"
// WHY: "op": "tosa.intdiv"
// WHY: "code": "no-counterpart"
func.func @stays(%x: tensor<1x1x1x1xi16>, %n: tensor<2xi32>) -> (tensor<1x1x1x1xi48>, tensor<2xi32>) {
  %w = "tosa.const"() <{values = dense<3> : tensor<1x1x1x1xi8>}> : () -> tensor<1x1x1x1xi8>
  %b = "tosa.const"() <{values = dense<0> : tensor<1xi48>}> : () -> tensor<1xi48>
  %z16 = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
  %z8 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = "tosa.conv2d"(%x, %w, %b, %z16, %z8) <{acc_type = i48, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}> : (tensor<1x1x1x1xi16>, tensor<1x1x1x1xi8>, tensor<1xi48>, tensor<1xi16>, tensor<1xi8>) -> tensor<1x1x1x1xi48>
  %1 = "tosa.intdiv"(%n, %n) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  func.return %0, %1 : tensor<1x1x1x1xi48>, tensor<2xi32>
}
