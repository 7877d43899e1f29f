// RUN: qopt-opt %s --split-input-file --verify-diagnostics

func.func @squeeze(%x: tensor<2x1xf32>) {
  // expected-error @+1 {{cannot squeeze dimension 0 of extent 2}}
  %0 = nn.squeeze %x axes [0] : (tensor<2x1xf32>) -> tensor<1xf32>
  return
}

// -----

func.func @split(%x: tensor<5xf32>) {
  // expected-error @+1 {{sizes [2, 2] do not add up to extent 5}}
  %0:2 = nn.split %x sizes [2, 2] : (tensor<5xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @wrong_axis(%x: tensor<2x4x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0, 4.0}>>) {
  // The dimension that has the same size is not the quantized one.
  // expected-error @+1 {{cannot carry these qparams}}
  %0 = nn.reshape %x : (tensor<2x4x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0, 4.0}>>) -> tensor<4x2x!quant.uniform<i8:f32:0, {1.0, 2.0, 3.0, 4.0}>>
  return
}

// -----

func.func @phases(%x: tensor<1x4x1x1x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0, 4.0}>>) {
  // expected-error @+1 {{cannot carry these qparams}}
  %0 = nn.depth_to_space %x block 2 : (tensor<1x4x1x1x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0, 4.0}>>) -> tensor<1x1x2x2x!quant.uniform<i8:f32, 1.0>>
  return
}

// -----

func.func @second_part(%x: tensor<2x!quant.uniform<i8:f32:0, {1.0, 2.0}>>) {
  // expected-error @+1 {{result must be quantized as !quant.uniform<i8:f32, 2.000000e+00>}}
  %0:2 = nn.split %x sizes [1, 1] : (tensor<2x!quant.uniform<i8:f32:0, {1.0, 2.0}>>) -> (tensor<1x!quant.uniform<i8:f32, 1.0>>, tensor<1x!quant.uniform<i8:f32, 1.0>>)
  return
}

// -----

func.func @dynamic(%x: tensor<2x!quant.uniform<i8:f32:0, {1.0, 2.0}>>, %i: tensor<2xi64>) {
  // expected-error @+1 {{would depend on run-time indices}}
  %0 = nn.gather %x, %i : (tensor<2x!quant.uniform<i8:f32:0, {1.0, 2.0}>>, tensor<2xi64>) -> tensor<2x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
  return
}

// -----

func.func @shape_of_floats(%x: tensor<?x4xf32>, %s: tensor<2xf32>) {
  // expected-error @+1 {{'nn.reshape_to' op expects a shape of integers, but got f32}}
  %0 = nn.reshape_to %x, %s : (tensor<?x4xf32>, tensor<2xf32>) -> tensor<?x?xf32>
  return
}

// -----

func.func @shape_of_unknown_length(%x: tensor<?x4xf32>, %s: tensor<?xi64>) {
  // expected-error @+1 {{expects a vector of known length as shape, but got [-1]}}
  %0 = nn.reshape_to %x, %s : (tensor<?x4xf32>, tensor<?xi64>) -> tensor<?x?xf32>
  return
}

// -----

func.func @shape_of_another_rank(%x: tensor<?x4xf32>, %s: tensor<3xi64>) {
  // expected-error @+1 {{result #0 has shape ?x?, but the operands give ?x?x?}}
  %0 = nn.reshape_to %x, %s : (tensor<?x4xf32>, tensor<3xi64>) -> tensor<?x?xf32>
  return
}

// -----

func.func @rows_of_a_computed_shape(%x: tensor<2x4x!quant.uniform<i8:f32:0, {1.0, 2.0}>>, %s: tensor<2xi64>) {
  // expected-error @+1 {{unknown sizes decide the parameters}}
  %0 = nn.reshape_to %x, %s : (tensor<2x4x!quant.uniform<i8:f32:0, {1.0, 2.0}>>, tensor<2xi64>) -> tensor<?x?x!quant.uniform<i8:f32:0, {1.0, 2.0}>>
  return
}

// -----

func.func @condition(%c: tensor<2xi8>, %x: tensor<2xf32>) {
  // expected-error @+1 {{expects an i1 condition}}
  %0 = nn.select %c, %x, %x : (tensor<2xi8>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @outside(%x: tensor<2x5xf32>, %u: tensor<1x3xf32>) {
  // expected-error @+1 {{the update ends at 6 of dimension 1 of extent 5}}
  %0 = nn.insert %x, %u starts [0, 1] steps [1, 2] : (tensor<2x5xf32>, tensor<1x3xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @from_the_end(%x: tensor<2x5xf32>, %u: tensor<1x3xf32>) {
  // expected-error @+1 {{expects starts from 0 and steps from 1}}
  %0 = nn.insert %x, %u starts [-1, 1] steps [1, 1] : (tensor<2x5xf32>, tensor<1x3xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @update_of_another_scale(%x: tensor<2x5x!quant.uniform<i8:f32, 0.5>>, %u: tensor<1x5x!quant.uniform<i8:f32, 0.25>>) {
  // expected-error @+1 {{result must be quantized as !quant.uniform<i8:f32:0,}}
  %0 = nn.insert %x, %u starts [1, 0] steps [1, 1] : (tensor<2x5x!quant.uniform<i8:f32, 0.5>>, tensor<1x5x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x5x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

func.func @mode(%x: tensor<2xf32>) {
  // expected-error @+1 {{unknown mode 'less' (one of eq, ne, lt, le, gt, ge)}}
  %0 = nn.compare %x, %x mode less : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  return
}

// -----

func.func @bits(%x: tensor<2xf32>) {
  // expected-error @+1 {{gives i1, not i8}}
  %0 = nn.compare %x, %x mode lt : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi8>
  return
}

// -----

func.func @unlike(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>, %y: tensor<2x!quant.uniform<i8:f32, 0.25>>) {
  // expected-error @+1 {{cannot compare these codes: operands have different qparams}}
  %0 = nn.compare %x, %y mode lt : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2xi1>
  return
}

// -----

func.func @codes_and_floats(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>, %y: tensor<2xf32>) {
  // expected-error @+1 {{compares codes with floats}}
  %0 = nn.compare %x, %y mode lt : (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2xf32>) -> tensor<2xi1>
  return
}

// -----

func.func @across_scales(%x: tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) {
  // expected-error @+1 {{takes no input quantized along dimension 0}}
  %0 = nn.arg_max %x : (tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>) -> tensor<1xi64>
  return
}

// -----

func.func @too_many(%x: tensor<2x5xf32>) {
  // expected-error @+1 {{cannot pick 3 of dimension 0 of extent 2}}
  %0:2 = nn.top_k %x k 3 axis 0 : (tensor<2x5xf32>) -> (tensor<3x5xf32>, tensor<3x5xi64>)
  return
}

// -----

func.func @other_values(%x: tensor<5x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error @+1 {{result must be quantized as !quant.uniform<i8:f32, 5.000000e-01>}}
  %0:2 = nn.top_k %x k 3 : (tensor<5x!quant.uniform<i8:f32, 0.5>>) -> (tensor<3x!quant.uniform<i8:f32, 0.25>>, tensor<3xi64>)
  return
}

// -----

// Extents that are both unknown, after the quantized one: merged with it in one case only.
func.func @flattened(%x: tensor<?x4x?x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0, 4.0}>>) -> tensor<?x?x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0, 4.0}>> {
  // expected-error @+1 {{'nn.flatten' op cannot carry these qparams: unknown sizes decide the parameters of (-1, 4, -1) -> (-1, -1)}}
  %0 = nn.flatten %x axis 1 : (tensor<?x4x?x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0, 4.0}>>) -> tensor<?x?x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0, 4.0}>>
  return %0 : tensor<?x?x!quant.uniform<i8:f32:1, {1.0, 2.0, 3.0, 4.0}>>
}

// -----

// The grid that gives each element its scale, but for two that changed places.
func.func @other_blocks(%x: tensor<4x!quant.uniform<i8:f32:0, {0.5, 0.25, 1.0, 2.0}>>) -> tensor<2x2x!quant.uniform<i8:f32:{0:1, 1:1}, {{0.5, 1.0}, {0.25, 2.0}}>> {
  // expected-error @+1 {{'nn.reshape' op result must be quantized as !quant.uniform<i8:f32:{0:1, 1:1}, {{5.000000e-01, 2.500000e-01}, {1.000000e+00, 2.000000e+00}}>, but is}}
  %0 = nn.reshape %x : (tensor<4x!quant.uniform<i8:f32:0, {0.5, 0.25, 1.0, 2.0}>>) -> tensor<2x2x!quant.uniform<i8:f32:{0:1, 1:1}, {{0.5, 1.0}, {0.25, 2.0}}>>
  return %0 : tensor<2x2x!quant.uniform<i8:f32:{0:1, 1:1}, {{0.5, 1.0}, {0.25, 2.0}}>>
}
