// RUN: qopt-opt %s -p lower-quant-ops --split-input-file --verify-diagnostics | filecheck %s

// Upstream's pass divides and truncates: 0.99 gives 0, 200.0 gives -56.
// CHECK-LABEL: func.func @quantize
// CHECK: arith.divf
// CHECK-NEXT: math.roundeven
// CHECK: arith.maxnumf
// CHECK: arith.minnumf
// CHECK-NEXT: arith.fptosi %{{.*}} : f32 to i32
// CHECK: arith.addi
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK-NEXT: arith.trunci %{{.*}} : i32 to i8
// CHECK-NEXT: quant.scast
func.func @quantize(%x: f32) -> !quant.uniform<i8<-127:126>:f32, 2.0:5> {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8<-127:126>:f32, 2.0:5>
  return %0 : !quant.uniform<i8<-127:126>:f32, 2.0:5>
}

// CHECK-LABEL: func.func @half_away
// CHECK: math.round %
func.func @half_away(%x: f32) -> !quant.uniform<i8:f32, 2.0> {
  %0 = quant.qcast %x {quant.rounding = "half_away"} : f32 to !quant.uniform<i8:f32, 2.0>
  return %0 : !quant.uniform<i8:f32, 2.0>
}

// The zero point is subtracted in integers: exact whatever the float type.
// CHECK-LABEL: func.func @dequantize
// CHECK: quant.scast
// CHECK-NEXT: arith.extui %{{.*}} : i8 to i32
// CHECK: arith.subi
// CHECK: arith.sitofp %{{.*}} : i32 to f32
// CHECK-NEXT: arith.mulf
!q = !quant.uniform<u8:f32, 2.0:128>
func.func @dequantize(%x: !q) -> f32 {
  // DOC-BEFORE
  %0 = quant.dcast %x : !q to f32
  // DOC-AFTER
  //   %1 = quant.scast %x : !q to i8
  //   %2 = arith.extui %1 : i8 to i32
  //   %3 = arith.constant 128 : i32
  //   %4 = arith.subi %2, %3 : i32
  //   %5 = arith.constant 2.0 : f32
  //   %6 = arith.sitofp %4 : i32 to f32
  //   %0 = arith.mulf %6, %5 : f32
  // DOC-END
  return %0 : f32
}

// CHECK-LABEL: func.func @blocks
// CHECK: arith.constant dense<{{\[\[}}2.000000e+00, 3.000000e+00], [4.000000e+00, 5.000000e+00]]> : tensor<2x2xf32>
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, (d1 floordiv 2))>
func.func @blocks(%x: tensor<2x4xf32>) -> tensor<2x4x!quant.uniform<i8:f32:{0:1,1:2}, {{2.0:1, 3.0}, {4.0, 5.0}}>> {
  %0 = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:{0:1,1:2}, {{2.0:1, 3.0}, {4.0, 5.0}}>>
  return %0 : tensor<2x4x!quant.uniform<i8:f32:{0:1,1:2}, {{2.0:1, 3.0}, {4.0, 5.0}}>>
}

// CHECK-LABEL: func.func @wide
// CHECK: math.roundeven
// CHECK-NEXT: arith.extf %{{.*}} : f32 to f64
// CHECK: arith.fptosi %{{.*}} : f64 to i64
func.func @wide(%x: tensor<?xf32>) -> tensor<?x!quant.uniform<i32:f32, 0.1>> {
  %0 = quant.qcast %x : tensor<?xf32> to tensor<?x!quant.uniform<i32:f32, 0.1>>
  return %0 : tensor<?x!quant.uniform<i32:f32, 0.1>>
}

// -----

func.func @levels(%x: !quant.uniform<!quant.quantile<ui2:f32, {-1.0, -0.5, 0.25, 1.0}>:f32, 2.0>) -> f32 {
  // expected-error@+1 {{'quant.dcast' op cannot be lowered: quant.scast gives no codes of storage ui2}}
  %0 = quant.dcast %x : !quant.uniform<!quant.quantile<ui2:f32, {-1.0, -0.5, 0.25, 1.0}>:f32, 2.0> to f32
  return %0 : f32
}

// -----

func.func @any(%x: f32) -> !quant.any<i8:f32> {
  // expected-error@+1 {{'quant.qcast' op cannot be lowered: !quant.any<i8:f32> has no scale}}
  %0 = quant.qcast %x : f32 to !quant.any<i8:f32>
  return %0 : !quant.any<i8:f32>
}
