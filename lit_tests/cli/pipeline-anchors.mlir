// RUN: qopt-opt %s --pass-pipeline='builtin.module(builtin.module(dce))' | filecheck %s --check-prefix=INNER
// RUN: qopt-opt %s --pass-pipeline='builtin.module(func.func(dce))' | filecheck %s --check-prefix=FUNC
// RUN: qopt-opt %s --pass-pipeline='builtin.module(builtin.module(builtin.module(dce)))' | filecheck %s --check-prefix=INMOST
// RUN: qopt-opt %s --pass-pipeline='builtin.module(any(any(dce)))' | filecheck %s --check-prefix=ANY
// RUN: qopt-opt %s --pass-pipeline='builtin.module(dce)' | filecheck %s --check-prefix=ALL
// RUN: qopt-opt %s --pass-pipeline='builtin.module(acme.thing(dce))' | filecheck %s --check-prefix=NONE
// RUN: qopt-opt %s --pass-pipeline='builtin.module(builtin.module(func.func(dce),dce),func.func(cse))' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=TEXT
// RUN: not qopt-opt %s --pass-pipeline='builtin.module(func.func(arith.constant(dce)))' 2>&1 | filecheck %s --check-prefix=OPEN

// A pass runs on the ops its anchors name, and on no others.

// INNER-LABEL: @before
// INNER-NEXT: arith.constant
// INNER-LABEL: @first
// INNER-NEXT: return
// INNER-LABEL: @deep
// INNER-NEXT: return
// INNER-LABEL: @after
// INNER-NEXT: arith.constant

// FUNC-LABEL: @before
// FUNC-NEXT: return
// FUNC-LABEL: @first
// FUNC-NEXT: arith.constant
// FUNC-LABEL: @deep
// FUNC-NEXT: arith.constant
// FUNC-LABEL: @after
// FUNC-NEXT: return

// INMOST-LABEL: @first
// INMOST-NEXT: arith.constant
// INMOST-LABEL: @deep
// INMOST-NEXT: return
// INMOST-LABEL: @after
// INMOST-NEXT: arith.constant

// ANY-LABEL: @before
// ANY-NEXT: arith.constant
// ANY-LABEL: @first
// ANY-NEXT: return
// ANY-LABEL: @deep
// ANY-NEXT: return

// ALL-NOT: arith.constant
// NONE-COUNT-4: arith.constant
// TEXT: Pass Manager with 3 passes:
// TEXT-NEXT: builtin.module(
// TEXT-NEXT:   builtin.module(
// TEXT-NEXT:     func.func(
// TEXT-NEXT:       dce
// TEXT-NEXT:     ),
// TEXT-NEXT:     dce
// TEXT-NEXT:   ),
// TEXT-NEXT:   func.func(
// TEXT-NEXT:     cse
// TEXT-NEXT:   )
// TEXT-NEXT: )
// OPEN: error: no pass can run on 'arith.constant'

func.func @before() {
  %0 = arith.constant 1 : i32
  return
}
module @inner {
  func.func @first() {
    %0 = arith.constant 1 : i32
    return
  }
  module @inmost {
    func.func @deep() {
      %0 = arith.constant 1 : i32
      return
    }
  }
}
func.func @after() {
  %0 = arith.constant 1 : i32
  return
}
