// RUN: qopt-opt %s --split-input-file -p place-rescales | filecheck %s
// RUN: qopt-opt %s --split-input-file -p place-rescales --remarks -o %t 2>&1 | filecheck %s --check-prefix=COST

// Ten iterations of 32 elements are more than 128, three are less.

!a = tensor<4x32x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x32x!quant.uniform<i8:f32, 0.25:-5>>
!s = tensor<1x32x!quant.uniform<i8:f32, 0.25:-5>>

// COST: cost 128 -> 128 elements x price, lower bound 128
// CHECK-LABEL: func.func @ten(
// CHECK: quant.rescale
// CHECK: scf.for
// CHECK-NOT: quant.rescale
func.func @ten(%x: !a, %init: !s) -> !s {
  %from = arith.constant 0 : index
  %to = arith.constant 10 : index
  %step = arith.constant 1 : index
  %0 = quant.rescale %x : !a to !b
  %1 = scf.for %i = %from to %to step %step iter_args(%last = %init) -> (!s) {
    %2 = nn.slice %0 starts [0, 0] stops [1, 32] steps [1, 1] : (!b) -> !s
    %3 = nn.add %2, %last : (!s, !s) -> !s
    scf.yield %3 : !s
  }
  return %1 : !s
}

// -----

!a = tensor<4x32x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x32x!quant.uniform<i8:f32, 0.25:-5>>
!s = tensor<1x32x!quant.uniform<i8:f32, 0.25:-5>>

// COST: cost 128 -> 96 elements x price, lower bound 96
// CHECK-LABEL: func.func @three(
// CHECK: scf.for
// CHECK: nn.slice
// CHECK-NEXT: quant.rescale
func.func @three(%x: !a, %init: !s) -> !s {
  %from = arith.constant 0 : index
  %to = arith.constant 6 : index
  %step = arith.constant 2 : index
  %0 = quant.rescale %x : !a to !b
  %1 = scf.for %i = %from to %to step %step iter_args(%last = %init) -> (!s) {
    %2 = nn.slice %0 starts [0, 0] stops [1, 32] steps [1, 1] : (!b) -> !s
    %3 = nn.add %2, %last : (!s, !s) -> !s
    scf.yield %3 : !s
  }
  return %1 : !s
}

// -----

// Nobody knows how often: nothing moves in.

!a = tensor<4x32x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x32x!quant.uniform<i8:f32, 0.25:-5>>
!s = tensor<1x32x!quant.uniform<i8:f32, 0.25:-5>>

// COST: cost 128 -> 128 elements x price, lower bound 128
// CHECK-LABEL: func.func @unknown(
// CHECK: quant.rescale
// CHECK: scf.for
func.func @unknown(%x: !a, %init: !s, %to: index) -> !s {
  %from = arith.constant 0 : index
  %step = arith.constant 1 : index
  %0 = quant.rescale %x : !a to !b
  %1 = scf.for %i = %from to %to step %step iter_args(%last = %init) -> (!s) {
    %2 = nn.slice %0 starts [0, 0] stops [1, 32] steps [1, 1] : (!b) -> !s
    %3 = nn.add %2, %last : (!s, !s) -> !s
    scf.yield %3 : !s
  }
  return %1 : !s
}

// -----

// What is the same in each iteration is rescaled once.

!a = tensor<4x32x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x32x!quant.uniform<i8:f32, 0.25:-5>>

// COST: cost 1280 -> 128 elements x price, lower bound 128
// CHECK-LABEL: func.func @invariant(
// CHECK: quant.rescale
// CHECK: scf.for
// CHECK-NOT: quant.rescale
func.func @invariant(%x: !a, %init: !b) -> !b {
  %from = arith.constant 0 : index
  %to = arith.constant 10 : index
  %step = arith.constant 1 : index
  %1 = scf.for %i = %from to %to step %step iter_args(%last = %init) -> (!b) {
    %0 = quant.rescale %x : !a to !b
    %3 = nn.add %0, %last : (!b, !b) -> !b
    scf.yield %3 : !b
  }
  return %1 : !b
}

// -----

// A rescale that one branch needs goes into it.

!a = tensor<4x32x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<4x32x!quant.uniform<i8:f32, 0.25:-5>>
!s = tensor<1x32x!quant.uniform<i8:f32, 0.25:-5>>

// COST: cost 128 -> 32 elements x price, lower bound 32
// CHECK-LABEL: func.func @branch(
// CHECK-NEXT: scf.if
// CHECK-NEXT: nn.slice
// CHECK-NEXT: quant.rescale
func.func @branch(%x: !a, %other: !s, %p: i1) -> !s {
  %0 = quant.rescale %x : !a to !b
  %1 = scf.if %p -> (!s) {
    %2 = nn.slice %0 starts [0, 0] stops [1, 32] steps [1, 1] : (!b) -> !s
    scf.yield %2 : !s
  } else {
    scf.yield %other : !s
  }
  return %1 : !s
}
