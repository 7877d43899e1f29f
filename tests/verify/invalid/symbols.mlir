func.func @f() { return }
func.func @f() { return }
// -----
func.func private @f()
func.func @g() { return }
func.func private @f(i32)
// -----
func.func @g() {
  call @missing() : () -> ()
  return
}
// -----
func.func private @f(i32)
func.func @g() {
  func.call @f() : () -> ()
  return
}
// -----
func.func private @f(i32)
func.func @g(%x: i64) {
  func.call @f(%x) : (i64) -> ()
  return
}
// -----
func.func private @f(i32) -> i32
func.func @g(%x: i32) {
  func.call @f(%x) : (i32) -> ()
  return
}
// -----
func.func private @f(i32) -> i32
func.func @g(%x: i32) {
  %0 = func.call @f(%x) : (i32) -> i64
  return
}
// -----
module @m {
  module @inner {
    func.func private @f()
  }
  func.func @g() {
    call @f() : () -> ()
    return
  }
}
// -----
module @m {
  memref.global @f : memref<4xf32>
  func.func @g() {
    call @f() : () -> ()
    return
  }
}
// -----
func.func @g() {
  %0 = func.constant @missing : () -> i32
  return
}
// -----
func.func private @f() -> i64
func.func @g() {
  %0 = func.constant @f : () -> i32
  return
}
// -----
func.func @g() -> memref<4xf32> {
  %0 = memref.get_global @missing : memref<4xf32>
  return %0 : memref<4xf32>
}
// -----
memref.global @v : memref<4xi32>
func.func @g() -> memref<4xf32> {
  %0 = memref.get_global @v : memref<4xf32>
  return %0 : memref<4xf32>
}
// -----
"func.func"() ({}) {function_type = () -> (), sym_name = "f", sym_visibility = "foo"} : () -> ()
// -----
"func.func"() ({}) {function_type = () -> (), sym_name = "f", sym_visibility = 4 : i32} : () -> ()
// -----
module {
  module @a {}
  module @a {}
}
// -----
module @a {
  func.func @f() { return }
  module @b {
    func.func @f() { return }
    func.func @f() { return }
  }
}
// -----
module @a {
  func.func @f() {
    "func.func"() ({ return }) {function_type = () -> (), sym_name = "inner"} : () -> ()
    return
  }
}
// -----
func.func @g(%f: (i32) -> i32, %x: i64) {
  %0 = "func.call_indirect"(%f, %x) : ((i32) -> i32, i64) -> i32
  return
}
// -----
func.func @g() {
  "func.call"() : () -> ()
  return
}
// -----
func.func @g() {
  "func.call"() {callee = "f"} : () -> ()
  return
}
