// RUN: qopt-opt %s --split-input-file --verify-diagnostics

func.func @direction(%x: tensor<5x2x3xf32>, %w: tensor<1x24x3xf32>, %r: tensor<1x24x6xf32>, %b: tensor<1x48xf32>) {
  // expected-error @+1 {{direction must be one of forward, reverse, bidirectional, but is 'sideways'}}
  %0 = nn.lstm %x, %w, %r, %b direction sideways : (tensor<5x2x3xf32>, tensor<1x24x3xf32>, tensor<1x24x6xf32>, tensor<1x48xf32>) -> tensor<5x1x2x6xf32>
  return
}

// -----

func.func @directions(%x: tensor<5x2x3xf32>, %w: tensor<1x24x3xf32>, %r: tensor<1x24x6xf32>, %b: tensor<1x48xf32>) {
  // expected-error @+1 {{expects a weight of shape 2x24x3, but got 1x24x3}}
  %0 = nn.lstm %x, %w, %r, %b direction bidirectional : (tensor<5x2x3xf32>, tensor<1x24x3xf32>, tensor<1x24x6xf32>, tensor<1x48xf32>) -> tensor<5x2x2x6xf32>
  return
}

// -----

func.func @bias(%x: tensor<5x2x3xf32>, %w: tensor<1x18x3xf32>, %r: tensor<1x18x6xf32>, %b: tensor<1x18xf32>) {
  // expected-error @+1 {{expects a bias of shape 1x36, but got 1x18}}
  %0 = nn.gru %x, %w, %r, %b : (tensor<5x2x3xf32>, tensor<1x18x3xf32>, tensor<1x18x6xf32>, tensor<1x18xf32>) -> tensor<5x1x2x6xf32>
  return
}

// -----

func.func @one_state(%x: tensor<5x2x3xf32>, %w: tensor<1x24x3xf32>, %r: tensor<1x24x6xf32>, %b: tensor<1x48xf32>, %h: tensor<1x2x6xf32>) {
  // expected-error @+1 {{expects after the bias initial_h, initial_c or nothing}}
  %0 = nn.lstm %x, %w, %r, %b, %h : (tensor<5x2x3xf32>, tensor<1x24x3xf32>, tensor<1x24x6xf32>, tensor<1x48xf32>, tensor<1x2x6xf32>) -> tensor<5x1x2x6xf32>
  return
}

// -----

func.func @quantized_bias(%x: tensor<5x2x3xf32>, %w: tensor<1x18x3xf32>, %r: tensor<1x18x6xf32>, %b: tensor<1x36x!quant.uniform<i8:f32, 0.1>>) {
  // expected-error @+1 {{takes no quantized bias}}
  %0 = nn.gru %x, %w, %r, %b : (tensor<5x2x3xf32>, tensor<1x18x3xf32>, tensor<1x18x6xf32>, tensor<1x36x!quant.uniform<i8:f32, 0.1>>) -> tensor<5x1x2x6xf32>
  return
}

// -----

func.func @lengths(%x: tensor<5x2x3xf32>, %w: tensor<1x18x3xf32>, %r: tensor<1x18x6xf32>, %b: tensor<1x36xf32>, %h: tensor<1x1x6xf32>, %l: tensor<2xf32>) {
  // expected-error @+1 {{expects lengths of integers, but got f32}}
  %0 = nn.gru %x, %w, %r, %b, %h, %l : (tensor<5x2x3xf32>, tensor<1x18x3xf32>, tensor<1x18x6xf32>, tensor<1x36xf32>, tensor<1x1x6xf32>, tensor<2xf32>) -> tensor<5x1x2x6xf32>
  return
}

// -----

func.func @last_states(%x: tensor<5x2x3xf32>, %w: tensor<1x18x3xf32>, %r: tensor<1x18x6xf32>, %b: tensor<1x36xf32>) {
  // expected-error @+1 {{has up to 1 last states, not 2}}
  %0:3 = nn.gru %x, %w, %r, %b last_states 2 : (tensor<5x2x3xf32>, tensor<1x18x3xf32>, tensor<1x18x6xf32>, tensor<1x36xf32>) -> (tensor<5x1x2x6xf32>, tensor<1x2x6xf32>, tensor<1x2x6xf32>)
  return
}
