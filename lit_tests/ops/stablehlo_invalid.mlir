// RUN: qopt-opt %s --split-input-file --verify-diagnostics
// RUN: not qopt-translate --import-stablehlo %s

func.func @shapes(%x: tensor<2xf32>, %y: tensor<3xf32>) {
  // expected-error @+1 {{requires the same shape for all operands and results}}
  %0 = "stablehlo.add"(%x, %y) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @elements(%x: tensor<2x!quant.uniform<i8:f32, 0.1>>, %y: tensor<2xi8>) {
  // expected-error @+1 {{requires compatible types for all operands and results}}
  %0 = "stablehlo.maximum"(%x, %y) : (tensor<2x!quant.uniform<i8:f32, 0.1>>, tensor<2xi8>) -> tensor<2x!quant.uniform<i8:f32, 0.1>>
  return
}

// -----

func.func @sum_of_one_axis(%x: tensor<2x!quant.uniform<i8:f32:0, {0.1, 0.2}>>, %y: tensor<2x!quant.uniform<i8:f32, 0.1>>) {
  // expected-error @+1 {{the quantized dimension of the result must be 0, but is None}}
  %0 = "stablehlo.add"(%x, %y) : (tensor<2x!quant.uniform<i8:f32:0, {0.1, 0.2}>>, tensor<2x!quant.uniform<i8:f32, 0.1>>) -> tensor<2x!quant.uniform<i8:f32, 0.1>>
  return
}

// -----

func.func @quantized_with_float(%x: tensor<2x!quant.uniform<i8:f32, 0.1>>, %y: tensor<2xf32>) {
  // expected-error @+1 {{whether operands and result are quantized must be one, but are True and False and True}}
  %0 = "stablehlo.add"(%x, %y) : (tensor<2x!quant.uniform<i8:f32, 0.1>>, tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.1>>
  return
}

// -----

func.func @real_part(%x: tensor<2xcomplex<f32>>) {
  // expected-error @+1 {{result must have the element type f32, but is tensor<2xf64>}}
  %0 = "stablehlo.real"(%x) : (tensor<2xcomplex<f32>>) -> tensor<2xf64>
  return
}

// -----

func.func @compared(%x: tensor<2xf32>, %y: tensor<2xf32>) {
  // expected-error @+1 {{result #0 must be ranked tensor of bool values, but got 'tensor<2xi8>'}}
  %0 = "stablehlo.compare"(%x, %y) <{comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi8>
  return
}

// -----

func.func @chosen(%c: tensor<3xi1>, %x: tensor<2xf32>, %y: tensor<2xf32>) {
  // expected-error @+1 {{pred, which is no scalar, must have the shape [2], but has [3]}}
  %0 = "stablehlo.select"(%c, %x, %y) : (tensor<3xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @bounds(%l: tensor<3xf32>, %x: tensor<2xf32>, %h: tensor<f32>) {
  // expected-error @+1 {{min, which is no scalar, must have the shape [2], but has [3]}}
  %0 = "stablehlo.clamp"(%l, %x, %h) : (tensor<3xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return
}

// -----

func.func @bits(%x: tensor<2xf32>) {
  // expected-error @+1 {{cannot read tensor<2xf32> as tensor<2xi16>: parts need a last dimension}}
  %0 = "stablehlo.bitcast_convert"(%x) : (tensor<2xf32>) -> tensor<2xi16>
  return
}

// -----

func.func @constant() {
  // expected-error @+1 {{element type of value must be f32, but is i32}}
  %0 = "stablehlo.constant"() <{value = dense<[1, 2]> : tensor<2xi32>}> : () -> tensor<2xf32>
  return
}

// -----

func.func @iota() {
  // expected-error @+1 {{iota_dimension must be of 1 dimensions, from 0, but is [1]}}
  %0 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<2xf32>
  return
}

// -----

func.func @reshaped(%x: tensor<2x3xi8>) {
  // expected-error @+1 {{number of elements of [5] must be 6, but is 5}}
  %0 = "stablehlo.reshape"(%x) : (tensor<2x3xi8>) -> tensor<5xi8>
  return
}

// -----

func.func @scales_of_a_reshape(%x: tensor<2x3x!quant.uniform<i8:f32:0, {0.1, 0.2}>>) {
  // expected-error @+1 {{the quantized dimension of tensor<2x3x!quant.uniform<i8:f32:0,}}
  %0 = "stablehlo.reshape"(%x) : (tensor<2x3x!quant.uniform<i8:f32:0, {0.1, 0.2}>>) -> tensor<3x2x!quant.uniform<i8:f32:1, {0.1, 0.2}>>
  return
}

// -----

func.func @permutation(%x: tensor<2x3xi8>) {
  // expected-error @+1 {{permutation must be of 2 dimensions, from 0, but is [0, 0]}}
  %0 = "stablehlo.transpose"(%x) <{permutation = array<i64: 0, 0>}> : (tensor<2x3xi8>) -> tensor<2x2xi8>
  return
}

// -----

func.func @scales_of_a_transpose(%x: tensor<2x3x!quant.uniform<i8:f32:0, {0.1, 0.2}>>) {
  // expected-error @+1 {{result must have the scales and zero points of tensor<2x3x!quant.uniform<i8:f32:0,}}
  %0 = "stablehlo.transpose"(%x) <{permutation = array<i64: 1, 0>}> : (tensor<2x3x!quant.uniform<i8:f32:0, {0.1, 0.2}>>) -> tensor<3x2x!quant.uniform<i8:f32:0, {0.1, 0.2, 0.3}>>
  return
}

// -----

func.func @outside(%x: tensor<2x3xi8>) {
  // expected-error @+1 {{dimension 1: cannot take 2 to 4 by 1 of 3}}
  %0 = "stablehlo.slice"(%x) <{limit_indices = array<i64: 2, 4>, start_indices = array<i64: 0, 2>, strides = array<i64: 1, 1>}> : (tensor<2x3xi8>) -> tensor<2x2xi8>
  return
}

// -----

func.func @sizes(%x: tensor<2x3xi8>, %i: tensor<i32>, %j: tensor<i32>) {
  // expected-error @+1 {{slice_sizes of [2, 4] must be inside of [2, 3]}}
  %0 = "stablehlo.dynamic_slice"(%x, %i, %j) <{slice_sizes = array<i64: 2, 4>}> : (tensor<2x3xi8>, tensor<i32>, tensor<i32>) -> tensor<2x4xi8>
  return
}

// -----

func.func @update(%x: tensor<2xi8>, %u: tensor<3xi8>, %i: tensor<i32>) {
  // expected-error @+1 {{update of [3] must be inside of [2]}}
  %0 = "stablehlo.dynamic_update_slice"(%x, %u, %i) : (tensor<2xi8>, tensor<3xi8>, tensor<i32>) -> tensor<2xi8>
  return
}

// -----

func.func @concatenated(%x: tensor<2x3xi8>, %y: tensor<2x4xi8>) {
  // expected-error @+1 {{cannot join [2, 3], [2, 4] along dimension 0}}
  %0 = "stablehlo.concatenate"(%x, %y) <{dimension = 0 : i64}> : (tensor<2x3xi8>, tensor<2x4xi8>) -> tensor<4x3xi8>
  return
}

// -----

func.func @repeated(%x: tensor<2x3xi8>) {
  // expected-error @+1 {{cannot repeat an extent of 3 to dimension 1 of [2, 4]}}
  %0 = "stablehlo.broadcast_in_dim"(%x) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x3xi8>) -> tensor<2x4xi8>
  return
}

// -----

func.func @padded(%x: tensor<2xi8>, %v: tensor<i8>) {
  // expected-error @+1 {{interior_padding must be at least 0, but is [-1]}}
  %0 = "stablehlo.pad"(%x, %v) <{edge_padding_high = array<i64: 1>, edge_padding_low = array<i64: 0>, interior_padding = array<i64: -1>}> : (tensor<2xi8>, tensor<i8>) -> tensor<3xi8>
  return
}

// -----

func.func @reversed(%x: tensor<2xi8>) {
  // expected-error @+1 {{dimensions must be of 1 dimensions, from 0, but is [1]}}
  %0 = "stablehlo.reverse"(%x) <{dimensions = array<i64: 1>}> : (tensor<2xi8>) -> tensor<2xi8>
  return
}

// -----

func.func @gathered(%x: tensor<4x3xi8>, %i: tensor<2x1xi32>) {
  // expected-error @+1 {{slice size 2 of dimension 0 must be at most 1}}
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 2, 3>}> : (tensor<4x3xi8>, tensor<2x1xi32>) -> tensor<2x3xi8>
  return
}

// -----

func.func @scattered(%x: tensor<4x3xf32>, %i: tensor<2x1xi32>, %u: tensor<2x4xf32>) {
  // expected-error @+1 {{updates [2, 4] are larger than [4, 3]}}
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
    "stablehlo.return"(%a1) : (tensor<f32>) -> ()
  }) : (tensor<4x3xf32>, tensor<2x1xi32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @summed(%x: tensor<2x3xf32>, %y: tensor<4x5xf32>) {
  // expected-error @+1 {{contracting dimensions of rhs must have the shape [3], but has [4]}}
  %0 = "stablehlo.dot_general"(%x, %y) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @zero_points(%x: tensor<2x3x!quant.uniform<i8:f32, 0.1>>, %y: tensor<3x5x!quant.uniform<i8:f32, 0.1:7>>) {
  // expected-error @+1 {{zero points of rhs must be 0, but are [7]}}
  %0 = "stablehlo.dot_general"(%x, %y) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x3x!quant.uniform<i8:f32, 0.1>>, tensor<3x5x!quant.uniform<i8:f32, 0.1:7>>) -> tensor<2x5x!quant.uniform<i32:f32, 0.01>>
  return
}

// -----

func.func @summed_scales(%x: tensor<2x2x!quant.uniform<i8:f32, 0.1>>, %y: tensor<2x5x!quant.uniform<i8:f32:0, {0.1, 0.2}>>) {
  // expected-error @+1 {{scales of rhs must not vary along [0], which are summed:}}
  %0 = "stablehlo.dot_general"(%x, %y) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x2x!quant.uniform<i8:f32, 0.1>>, tensor<2x5x!quant.uniform<i8:f32:0, {0.1, 0.2}>>) -> tensor<2x5x!quant.uniform<i32:f32, 0.01>>
  return
}

// -----

func.func @window(%x: tensor<1x4x4x2xf32>, %w: tensor<2x2x2x3xf32>) {
  // expected-error @+1 {{result must have the shape [1, 3, 3, 3], but is tensor<1x4x4x3xf32>}}
  %0 = "stablehlo.convolution"(%x, %w) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64}> : (tensor<1x4x4x2xf32>, tensor<2x2x2x3xf32>) -> tensor<1x4x4x3xf32>
  return
}

// -----

func.func @groups(%x: tensor<1x4x4x2xf32>, %w: tensor<2x2x2x3xf32>) {
  // expected-error @+1 {{input features of the kernel must have the shape [1], but has [2]}}
  %0 = "stablehlo.convolution"(%x, %w) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 2 : i64}> : (tensor<1x4x4x2xf32>, tensor<2x2x2x3xf32>) -> tensor<1x3x3x3xf32>
  return
}

// -----

func.func @reduced(%x: tensor<2x3xf32>, %i: tensor<f32>) {
  // expected-error @+1 {{result must have the shape [2], but is tensor<3xf32>}}
  %0 = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
    "stablehlo.return"(%a0) : (tensor<f32>) -> ()
  }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
  return
}

// -----

func.func @body(%x: tensor<2x3xf32>, %i: tensor<f32>) {
  // expected-error @+1 {{number of values that the body returns must be 1, but is 2}}
  %0 = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
    "stablehlo.return"(%a0, %a1) : (tensor<f32>, tensor<f32>) -> ()
  }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  return
}

// -----

func.func @windows(%x: tensor<4xf32>, %i: tensor<f32>) {
  // expected-error @+1 {{window_strides must be at least 1, but is [0]}}
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 0>}> ({
  ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
    "stablehlo.return"(%a0) : (tensor<f32>) -> ()
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<2xf32>
  return
}

// -----

func.func @sorted(%x: tensor<4xf32>) {
  // expected-error @+1 {{dimension must be of 1 dimensions, from 0, but is [1]}}
  %0 = "stablehlo.sort"(%x) <{dimension = 1 : i64}> ({
  ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
    "stablehlo.return"(%a0) : (tensor<f32>) -> ()
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @comparator(%x: tensor<4xf32>) {
  // expected-error @+1 {{what comparator returns must be (tensor<i1>), but is (tensor<f32>)}}
  %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
  ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
    "stablehlo.return"(%a0) : (tensor<f32>) -> ()
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @condition(%x: tensor<2xf32>) {
  // expected-error @+1 {{what cond returns must be (tensor<i1>), but is (tensor<2xf32>)}}
  %0 = "stablehlo.while"(%x) ({
  ^bb0(%a: tensor<2xf32>):
    "stablehlo.return"(%a) : (tensor<2xf32>) -> ()
  }, {
  ^bb0(%a: tensor<2xf32>):
    "stablehlo.return"(%a) : (tensor<2xf32>) -> ()
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @square(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{a must be square matrices, but has the shape [2, 3]}}
  %0 = "stablehlo.cholesky"(%x) <{lower = true}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @features(%x: tensor<2x3xf32>, %s: tensor<2xf32>, %o: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>) {
  // expected-error @+1 {{scale must have the shape [3], but has [2]}}
  %0 = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @lengths(%x: tensor<3x9xcomplex<f32>>) {
  // expected-error @+1 {{the last dimensions of an IRFFT must have the shape [5], but has [9]}}
  %0 = "stablehlo.fft"(%x) <{fft_length = array<i64: 9>, fft_type = #stablehlo<fft_type IRFFT>}> : (tensor<3x9xcomplex<f32>>) -> tensor<3x9xf32>
  return
}

// -----

func.func @expressed(%x: tensor<2x!quant.uniform<i8:f32, 0.1>>) {
  // expected-error @+1 {{element type of the result must be f32, but is f64}}
  %0 = "stablehlo.uniform_dequantize"(%x) : (tensor<2x!quant.uniform<i8:f32, 0.1>>) -> tensor<2xf64>
  return
}

// -----

func.func @missing(%x: tensor<2x3xi8>) {
  // expected-error @+1 {{requires attribute 'permutation'}}
  %0 = "stablehlo.transpose"(%x) : (tensor<2x3xi8>) -> tensor<3x2xi8>
  return
}

// -----

func.func @replicas(%x: tensor<2x2xf32>) {
  // expected-error @+1 {{all_gather_dim must be of 2 dimensions, from 0, but is [2]}}
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 2 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<2x2xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @recv(%token: !stablehlo.token) -> tensor<2xf32> {
  // expected-error@+1 {{the type of the last result must be !stablehlo.token, but is tensor<2xf32>}}
  %0 = "stablehlo.recv"(%token) {channel_handle = #stablehlo.channel_handle<handle = 0, type = 1>} : (!stablehlo.token) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @infeed(%token: !stablehlo.token) {
  // expected-error@+1 {{it must give a token, but gives nothing}}
  "stablehlo.infeed"(%token) : (!stablehlo.token) -> ()
  return
}
