// RUN: qopt-opt %s -p sink-rescale --remarks --verify-diagnostics | filecheck %s --check-prefix=SINK
// RUN: qopt-opt %s -p sink-rescale --verify-numerics=2 | filecheck %s --check-prefix=SINK
// RUN: qopt-opt %s -p hoist-rescale --verify-numerics=2 | filecheck %s --check-prefix=HOIST

// Many rescales move past many ops at once, in either direction.

!a = tensor<?x4x!quant.uniform<i8:f32, 0.5:3>>
!b = tensor<?x4x!quant.uniform<u8:f32, 0.75:128>>
!c = tensor<?x4x!quant.uniform<i8:f32, 0.25:-1>>
!rows = tensor<?x4x!quant.uniform<i8:f32:1, {0.5, 0.25, 1.0, 2.0}>>

// SINK-LABEL: func.func @alternating(
// SINK-NEXT: nn.flip {{.*}} -> tensor<?x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// SINK-NEXT: nn.relu
// SINK-NEXT: nn.maximum
// SINK-NEXT: quant.rescale {{.*}} to tensor<?x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// SINK-NEXT: quant.rescale {{.*}} rounding half_up : {{.*}} to tensor<?x4x!quant.uniform<i8:f32, 2.500000e-01:-1>>
// SINK-NEXT: quant.rescale
// SINK-NEXT: return
// HOIST-LABEL: func.func @alternating(
// HOIST-COUNT-3: quant.rescale
// HOIST-NEXT: nn.flip {{.*}} -> tensor<?x4x!quant.uniform<u8:f32, 7.500000e-01:128>>
// HOIST-NEXT: nn.relu
// HOIST-NEXT: nn.maximum
// HOIST-NEXT: return
func.func @alternating(%x: !a) -> !b {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-past-run fired, exact}}
  %1 = nn.flip %0 axes [0] : (!b) -> !b
  %2 = quant.rescale %1 rounding half_up : !b to !c
  %3 = nn.relu %2 : (!c) -> !c
  %4 = quant.rescale %3 : !c to !b
  %5 = nn.maximum %4, %4 : (!b, !b) -> !b
  return %5 : !b
}

// Branches that meet again are passed as one; from below each branch has a rescale of its own.
// SINK-LABEL: func.func @branches(
// SINK-NEXT: nn.flip
// SINK-NEXT: nn.relu
// SINK-NEXT: nn.minimum
// SINK-NEXT: quant.rescale
// SINK-NEXT: quant.rescale
// SINK-NEXT: return
// HOIST-LABEL: func.func @branches(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.flip
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.relu
// HOIST-NEXT: nn.minimum
func.func @branches(%x: !a) -> !c {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-past-run fired, exact}}
  %1 = nn.flip %0 axes [0] : (!b) -> !b
  %2 = nn.relu %0 : (!b) -> !b
  %3 = nn.minimum %1, %2 : (!b, !b) -> !b
  %4 = quant.rescale %3 : !b to !c
  return %4 : !c
}

// 0.3 is no code: what is above it stays above it, and what is below goes on.
// SINK-LABEL: func.func @up_to_a_bound(
// SINK-NEXT: nn.flip
// SINK-NEXT: nn.relu
// SINK-NEXT: quant.rescale
// SINK-NEXT: nn.clip
// SINK-NEXT: nn.flip
// SINK-NEXT: nn.relu
// SINK-NEXT: quant.rescale
// SINK-NEXT: return
// HOIST-LABEL: func.func @up_to_a_bound(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.flip
// HOIST-NEXT: nn.relu
// HOIST-NEXT: nn.clip
// HOIST-NEXT: quant.rescale
func.func @up_to_a_bound(%x: !a) -> !c {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-past-run fired, exact}}
  %1 = nn.flip %0 axes [0] : (!b) -> !b
  %2 = nn.relu %1 : (!b) -> !b
  // expected-remark@+1 {{sink-through-tied refused [levels]}}
  %3 = nn.clip %2 min 0.3 : (!b) -> !b
  %4 = quant.rescale %3 : !b to !c
  // expected-remark@+1 {{sink-past-run fired, exact}}
  %5 = nn.flip %4 axes [0] : (!c) -> !c
  %6 = nn.relu %5 : (!c) -> !c
  return %6 : !c
}

// Parameters along a dimension move step by step.
// SINK-LABEL: func.func @per_axis(
// SINK-NEXT: nn.flip {{.*}} -> tensor<?x4x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01,1.000000e+00,2.000000e+00}>>
// SINK-NEXT: nn.relu
// SINK-NEXT: quant.rescale
// HOIST-LABEL: func.func @per_axis(
// HOIST-NEXT: quant.rescale
// HOIST-NEXT: nn.flip
// HOIST-NEXT: nn.relu
func.func @per_axis(%x: !rows) -> !b {
  %0 = quant.rescale %x : !rows to !b
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %1 = nn.flip %0 axes [0] : (!b) -> !b
  // expected-remark@+1 {{sink-through-tied fired, exact}}
  %2 = nn.relu %1 : (!b) -> !b
  return %2 : !b
}

// SINK-LABEL: func.func @used_between(
// SINK-NEXT: quant.rescale
// SINK-NEXT: nn.flip
// SINK-NEXT: nn.relu
// HOIST-LABEL: func.func @used_between(
// HOIST-NEXT: quant.rescale
func.func @used_between(%x: !a) -> (!b, !b) {
  %0 = quant.rescale %x : !a to !b
  // expected-remark@+1 {{sink-through-tied refused [multi-use]}}
  %1 = nn.flip %0 axes [0] : (!b) -> !b
  %2 = nn.relu %1 : (!b) -> !b
  return %2, %0 : !b, !b
}
