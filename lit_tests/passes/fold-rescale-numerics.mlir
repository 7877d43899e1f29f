// RUN: qopt-opt %s -p 'fold-rescale{numerics=bounded}' --remarks=%t.json | filecheck %s --check-prefixes=ALL,BOUNDED
// RUN: qopt-opt %s -p 'fold-rescale{numerics=saturation}' | filecheck %s --check-prefixes=ALL,CLIP
// RUN: qopt-opt %s -p 'fold-rescale{numerics=relaxed}' | filecheck %s --check-prefixes=ALL,RELAXED
// RUN: filecheck %s --check-prefix=JSON < %t.json
// RUN: not qopt-opt %s -p 'fold-rescale{numerics=roughly}' 2>&1 | filecheck %s --check-prefix=BAD

// What fires under the weaker levels, and what the remarks say a program may change.

// BAD: error: unknown numerics level 'roughly' (one of exact, ties, bounded, saturation, relaxed)

// JSON: "version": 1
// JSON: "kind": "fired"
// JSON: "rule": "rescale-of-rescale"
// JSON: "op": "quant.rescale"
// JSON: "key": "lossy"
// JSON: "contract": "bounded(2)"
// JSON: "steps": 2.0
// JSON: "reason": "drops the middle's rounding"
// JSON: "kind": "refused"
// JSON: "code": "numerics"

!q = tensor<4x!quant.uniform<i8:f32, 0.5:3>>
!half = tensor<4x!quant.uniform<i8:f32, 0.25:3>>
!f = tensor<4xf32>

// ALL-LABEL: func.func @lossy_middle(
// ALL-NEXT: quant.rescale %{{.*}} {nn.key = "lossy"} : {{.*}}2.500000e-01:3>> to {{.*}}2.500000e-01:3>>
// ALL-NEXT: return
func.func @lossy_middle(%x: tensor<4x!quant.uniform<i8<-100:100>:f32, 0.25:3>>) -> !half {
  %0 = quant.rescale %x : tensor<4x!quant.uniform<i8<-100:100>:f32, 0.25:3>> to !q
  %1 = quant.rescale %0 {nn.key = "lossy"} : !q to !half
  func.return %1 : !half
}

// ALL-LABEL: func.func @clipping_middle(
// BOUNDED-NEXT: quant.rescale
// BOUNDED-NEXT: quant.rescale
// CLIP-NEXT: return %{{(x|arg0)}}
// RELAXED-NEXT: return %{{(x|arg0)}}
func.func @clipping_middle(%x: !q) -> !q {
  %0 = quant.rescale %x : !q to !half
  %1 = quant.rescale %0 : !half to !q
  func.return %1 : !q
}

// The new cast rounds like the old one and has its key.
// ALL-LABEL: func.func @quantize(
// BOUNDED-NEXT: quant.qcast
// BOUNDED-NEXT: quant.rescale
// CLIP-NEXT: quant.qcast %{{[a-z0-9]+}} {{{.*}}nn.key = "in"{{.*}}} : tensor<4xf32> to {{.*}}2.500000e-01:3>>
// CLIP-NEXT: return
// RELAXED-NEXT: quant.qcast %{{[a-z0-9]+}} {{{.*}}quant.rounding = "half_away"{{.*}}} : tensor<4xf32> to {{.*}}2.500000e-01:3>>
// RELAXED-NEXT: return
func.func @quantize(%x: !f) -> !half {
  %0 = quant.qcast %x {nn.key = "in", quant.rounding = "half_away"} : !f to tensor<4x!quant.uniform<i8<-4:4>:f32, 0.5>>
  %1 = quant.rescale %0 : tensor<4x!quant.uniform<i8<-4:4>:f32, 0.5>> to !half
  func.return %1 : !half
}

// T5: drops a rounding and perhaps a clip.
// ALL-LABEL: func.func @dequantize_of_rescale(
// BOUNDED-NEXT: quant.rescale
// BOUNDED-NEXT: quant.dcast
// CLIP-NEXT: quant.rescale
// CLIP-NEXT: quant.dcast
// RELAXED-NEXT: quant.dcast %{{(x|arg0)}}
// RELAXED-NEXT: return
func.func @dequantize_of_rescale(%x: !half) -> !f {
  %0 = quant.rescale %x : !half to !q
  %1 = quant.dcast %0 : !q to !f
  func.return %1 : !f
}

// T4: never but on request.
// ALL-LABEL: func.func @dequantize_of_quantize(
// BOUNDED-NEXT: quant.qcast
// BOUNDED-NEXT: quant.dcast
// CLIP-NEXT: quant.qcast
// CLIP-NEXT: quant.dcast
// RELAXED-NEXT: return %{{(x|arg0)}}
func.func @dequantize_of_quantize(%x: !f) -> !f {
  %0 = quant.qcast %x : !f to !q
  %1 = quant.dcast %0 : !q to !f
  func.return %1 : !f
}
