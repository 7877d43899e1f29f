// RUN: qopt-opt %s --keep-value-names --mlir-print-debuginfo | filecheck %s
// RUN: qopt-opt %s --keep-value-names --mlir-print-debuginfo | qopt-opt --keep-value-names --mlir-print-debuginfo | filecheck %s
// RUN: qopt-opt %s --keep-value-names --mlir-print-debuginfo --mlir-print-op-generic | qopt-opt --keep-value-names --mlir-print-debuginfo | filecheck %s

// CHECK: func.func @f(%x: tensor<2xf32> loc("x.py":3:4))
func.func @f(%x: tensor<2xf32> loc("x.py":3:4)) -> tensor<2xf32> {
  // CHECK: nn.relu {{.*}} loc("conv"("a.py":1:2))
  %0 = nn.relu %x : (tensor<2xf32>) -> tensor<2xf32> loc(#loc2)
  // CHECK-NEXT: nn.relu {{.*}} loc("{{.*}}locations.mlir":10:8)
  %1 = nn.relu %0 : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: return {{.*}} loc(fused<"m">["a.py":1:2, "b.py":1:2 to :5])
  return %1 : tensor<2xf32> loc(fused<"m">[#loc1, "b.py":1:2 to :5])
// CHECK: } loc(unknown)
} loc(#loc)

#loc = loc(unknown)
#loc1 = loc("a.py":1:2)
#loc2 = loc("conv"(#loc1))
