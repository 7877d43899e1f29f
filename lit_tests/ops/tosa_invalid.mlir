// RUN: qopt-opt %s --split-input-file --verify-diagnostics
// RUN: not qopt-translate --import-tosa %s

func.func @window(%x: tensor<1x4x4x2xi8>, %w: tensor<3x2x2x2xi8>, %b: tensor<3xi32>) {
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // expected-error @+1 {{result must have the shape [?, 3, 3, ?], but is tensor<1x9x9x3xi32>}}
  %0 = tosa.conv2d %x, %w, %b, %z, %z {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xi8>, tensor<3x2x2x2xi8>, tensor<3xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x9x9x3xi32>
  return
}

// -----

func.func @remainder(%x: tensor<1x4x4x2xi8>, %w: tensor<3x2x2x2xi8>, %b: tensor<3xi32>) {
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // expected-error @+1 {{spatial dimension 0: the reach 2 must be a multiple of the step 3}}
  %0 = tosa.conv2d %x, %w, %b, %z, %z {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 3, 3>} : (tensor<1x4x4x2xi8>, tensor<3x2x2x2xi8>, tensor<3xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x3xi32>
  return
}

// -----

func.func @negative_pad(%x: tensor<1x4x4x2xi8>, %w: tensor<3x2x2x2xi8>, %b: tensor<3xi32>) {
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // expected-error @+1 {{pad must be at least 0, but is [-1, 0, 0, 0]}}
  %0 = tosa.conv2d %x, %w, %b, %z, %z {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: -1, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xi8>, tensor<3x2x2x2xi8>, tensor<3xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x3x3xi32>
  return
}

// -----

func.func @biases(%x: tensor<1x4x4x2xi8>, %w: tensor<3x2x2x2xi8>, %b: tensor<4xi32>) {
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // expected-error @+1 {{the number of biases must be 1 or 3, but is 4}}
  %0 = tosa.conv2d %x, %w, %b, %z, %z {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xi8>, tensor<3x2x2x2xi8>, tensor<4xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x3x3xi32>
  return
}

// -----

func.func @sums(%x: tensor<1x4x4x2xi8>, %w: tensor<3x2x2x2xi8>, %b: tensor<3xi32>) {
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // expected-error @+1 {{acc_type for input of i8 must be i32, but is f32}}
  %0 = tosa.conv2d %x, %w, %b, %z, %z {acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xi8>, tensor<3x2x2x2xi8>, tensor<3xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x3x3xi32>
  return
}

// -----

func.func @zero_point_type(%x: tensor<1x4x4x2xi16>, %w: tensor<3x2x2x2xi8>, %b: tensor<3xi48>) {
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // expected-error @+1 {{type of input_zp must be i16, but is i8}}
  %0 = tosa.conv2d %x, %w, %b, %z, %z {acc_type = i48, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xi16>, tensor<3x2x2x2xi8>, tensor<3xi48>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x3x3xi48>
  return
}

// -----

func.func @zero_point(%x: tensor<2xi16>) {
  %z = "tosa.const"() <{values = dense<7> : tensor<1xi16>}> : () -> tensor<1xi16>
  // expected-error @+1 {{input1_zp of type i16 must be 0, but is 7}}
  %0 = tosa.negate %x, %z, %z : (tensor<2xi16>, tensor<1xi16>, tensor<1xi16>) -> tensor<2xi16>
  return
}

// -----

func.func @pool_pad(%x: tensor<1x4x4x2xi8>) {
  // expected-error @+1 {{pad must be smaller than the kernel [2, 2], but is [2, 0, 0, 0]}}
  %0 = tosa.max_pool2d %x {kernel = array<i64: 2, 2>, pad = array<i64: 2, 0, 0, 0>, stride = array<i64: 2, 2>} : (tensor<1x4x4x2xi8>) -> tensor<1x3x2x2xi8>
  return
}

// -----

func.func @transposed(%x: tensor<1x2x2x1xf32>, %w: tensor<1x2x2x1xf32>, %b: tensor<1xf32>) {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  // expected-error @+1 {{result must have the shape [?, 3, 3, ?], but is tensor<1x4x3x1xf32>}}
  %0 = tosa.transpose_conv2d %x, %w, %b, %z, %z {acc_type = f32, out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x3x1xf32>
  return
}

// -----

func.func @broadcast(%x: tensor<2x3xi32>, %y: tensor<2x4xi32>) {
  // expected-error @+1 {{operands don't have broadcast-compatible shapes: [2, 3], [2, 4]}}
  %0 = tosa.add %x, %y : (tensor<2x3xi32>, tensor<2x4xi32>) -> tensor<2x4xi32>
  return
}

// -----

func.func @ranks(%x: tensor<2x3xi32>, %y: tensor<3xi32>) {
  // expected-error @+1 {{operands and results must have one rank}}
  %0 = tosa.maximum %x, %y : (tensor<2x3xi32>, tensor<3xi32>) -> tensor<2x3xi32>
  return
}

// -----

func.func @clamp(%x: tensor<2xi8>) {
  // expected-error @+1 {{min_val must be at most max_val, but they are 3 and 2}}
  %0 = tosa.clamp %x {min_val = 3 : i8, max_val = 2 : i8} : (tensor<2xi8>) -> tensor<2xi8>
  return
}

// -----

func.func @choices(%c: tensor<2xi1>, %x: tensor<2xi8>, %y: tensor<2xi16>) {
  // expected-error @+1 {{element types of input2 and input3 and output must be one, but are i8 and i16 and i8}}
  %0 = tosa.select %c, %x, %y : (tensor<2xi1>, tensor<2xi8>, tensor<2xi16>) -> tensor<2xi8>
  return
}

// -----

func.func @argmax(%x: tensor<2x3xi8>) {
  // expected-error @+1 {{result must have the shape [3], but is tensor<2xi32>}}
  %0 = tosa.argmax %x {axis = 0 : i32} : (tensor<2x3xi8>) -> tensor<2xi32>
  return
}

// -----

func.func @reduced(%x: tensor<2x3xi32>) {
  // expected-error @+1 {{result must have the shape [2, 1], but is tensor<2x2xi32>}}
  %0 = tosa.reduce_sum %x {axis = 1 : i32} : (tensor<2x3xi32>) -> tensor<2x2xi32>
  return
}

// -----

func.func @axis(%x: tensor<2x3xi32>) {
  // expected-error @+1 {{axis must be of 2 dimensions, from 0, but is [2]}}
  %0 = tosa.reduce_max %x {axis = 2 : i32} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  return
}

// -----

func.func @negative_axis(%x: tensor<1x2xi8>) {
  // expected-error @+1 {{axis must be of 2 dimensions, from 0, but is [-1]}}
  %0 = tosa.concat %x, %x {axis = -1 : i32} : (tensor<1x2xi8>, tensor<1x2xi8>) -> tensor<1x4xi8>
  return
}

// -----

func.func @concat(%x: tensor<1x2xi8>, %y: tensor<1x3xi8>) {
  // expected-error @+1 {{cannot join [1, 2], [1, 3] along dimension 0}}
  %0 = tosa.concat %x, %y {axis = 0 : i32} : (tensor<1x2xi8>, tensor<1x3xi8>) -> tensor<2x2xi8>
  return
}

// -----

func.func @elements(%x: tensor<1x2xi8>) {
  %s = tosa.const_shape {values = dense<[3]> : tensor<1xindex>} : () -> !tosa.shape<1>
  // expected-error @+1 {{cannot reshape 2 elements to [3], output [3]}}
  %0 = tosa.reshape %x, %s : (tensor<1x2xi8>, !tosa.shape<1>) -> tensor<3xi8>
  return
}

// -----

func.func @permutation(%x: tensor<2x3xi8>) {
  // expected-error @+1 {{perms must be of 2 dimensions, from 0, but is [1, 1]}}
  %0 = tosa.transpose %x {perms = array<i32: 1, 1>} : (tensor<2x3xi8>) -> tensor<3x3xi8>
  return
}

// -----

func.func @paddings(%x: tensor<2x3xi8>) {
  %s = tosa.const_shape {values = dense<[1, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // expected-error @+1 {{number of paddings must be 4, but is 2}}
  %0 = tosa.pad %x, %s, %z : (tensor<2x3xi8>, !tosa.shape<2>, tensor<1xi8>) -> tensor<4x3xi8>
  return
}

// -----

func.func @slice_rank(%x: tensor<2x3xi8>) {
  %s = tosa.const_shape {values = dense<[0]> : tensor<1xindex>} : () -> !tosa.shape<1>
  %n = tosa.const_shape {values = dense<[1]> : tensor<1xindex>} : () -> !tosa.shape<1>
  // expected-error @+1 {{ranks of input, output, start and size must be one, but are 2 and 2 and 1 and 1}}
  %0 = tosa.slice %x, %s, %n : (tensor<2x3xi8>, !tosa.shape<1>, !tosa.shape<1>) -> tensor<1x3xi8>
  return
}

// -----

func.func @multiples(%x: tensor<2xi8>) {
  %s = tosa.const_shape {values = dense<[0]> : tensor<1xindex>} : () -> !tosa.shape<1>
  // expected-error @+1 {{multiples must be positive: (0,)}}
  %0 = tosa.tile %x, %s : (tensor<2xi8>, !tosa.shape<1>) -> tensor<2xi8>
  return
}

// -----

func.func @batches(%x: tensor<2x4x3xi8>, %i: tensor<3x5xi32>) {
  // expected-error @+1 {{indices must have the shape [2, ?], but has [3, 5]}}
  %0 = tosa.gather %x, %i : (tensor<2x4x3xi8>, tensor<3x5xi32>) -> tensor<2x5x3xi8>
  return
}

// -----

func.func @rows(%x: tensor<1x2x3xi8>, %i: tensor<1x4xi32>, %y: tensor<1x4x3xi8>) {
  // expected-error @+1 {{cannot write 4 rows to 2 places}}
  %0 = tosa.scatter %x, %i, %y : (tensor<1x2x3xi8>, tensor<1x4xi32>, tensor<1x4x3xi8>) -> tensor<1x2x3xi8>
  return
}

// -----

func.func @resized(%x: tensor<1x4x4x1xi8>) {
  %s = tosa.const_shape {values = dense<[2, 1, 2, 1]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %o = tosa.const_shape {values = dense<[0, 0]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %b = tosa.const_shape {values = dense<[0, 0]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{result must have the shape [?, 7, 7, ?], but is tensor<1x8x8x1xi8>}}
  %0 = tosa.resize %x, %s, %o, %b {mode = NEAREST_NEIGHBOR} : (tensor<1x4x4x1xi8>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x8x8x1xi8>
  return
}

// -----

func.func @multipliers(%x: tensor<2x3xi8>) {
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %m = "tosa.const"() <{values = dense<1> : tensor<2xi32>}> : () -> tensor<2xi32>
  %k = "tosa.const"() <{values = dense<31> : tensor<2xi8>}> : () -> tensor<2xi8>
  // expected-error @+1 {{multiplier must have the shape [3], but has [2]}}
  %0 = tosa.rescale %x, %m, %k, %z, %z {input_unsigned = false, output_unsigned = false, per_channel = true, rounding_mode = SINGLE_ROUND, scale32 = true} : (tensor<2x3xi8>, tensor<2xi32>, tensor<2xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8>
  return
}

// -----

func.func @constant() {
  // expected-error @+1 {{element type of values must be f32, but is i32}}
  %0 = "tosa.const"() {values = dense<[1, 2]> : tensor<2xi32>} : () -> tensor<2xf32>
  return
}

// -----

func.func @shape_rank() {
  // expected-error @+1 {{number of values must be 3, but is 2}}
  %0 = tosa.const_shape {values = dense<[1, 2]> : tensor<2xindex>} : () -> !tosa.shape<3>
  return
}

// -----

func.func @missing(%x: tensor<2xi8>) {
  // expected-error @+1 {{requires attribute 'axis'}}
  %0 = "tosa.reverse"(%x) : (tensor<2xi8>) -> tensor<2xi8>
  return
}

// -----

func.func @powers(%x: tensor<1x3x4xf32>) {
  // expected-error @+1 {{height and width must be powers of two: 3}}
  %0, %1 = tosa.rfft2d %x : (tensor<1x3x4xf32>) -> (tensor<1x3x3xf32>, tensor<1x3x3xf32>)
  return
}

// -----

func.func @branches(%c: tensor<i1>, %x: tensor<2xi8>) {
  // expected-error @+1 {{number of results of else_graph must be 1, but is 0}}
  %0 = "tosa.cond_if"(%c, %x) ({
  ^bb0(%a: tensor<2xi8>):
    "tosa.yield"(%a) : (tensor<2xi8>) -> ()
  }, {
  ^bb0(%a: tensor<2xi8>):
    "tosa.yield"() : () -> ()
  }) : (tensor<i1>, tensor<2xi8>) -> tensor<2xi8>
  return
}

// -----

func.func @loop(%x: tensor<2xi8>) {
  // expected-error @+1 {{the result of cond_graph must have one element, but is tensor<2xi8>}}
  %0 = "tosa.while_loop"(%x) ({
  ^bb0(%a: tensor<2xi8>):
    "tosa.yield"(%a) : (tensor<2xi8>) -> ()
  }, {
  ^bb0(%a: tensor<2xi8>):
    "tosa.yield"(%a) : (tensor<2xi8>) -> ()
  }) : (tensor<2xi8>) -> tensor<2xi8>
  return
}
