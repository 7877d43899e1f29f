// RUN: qopt-opt %s | filecheck %s
// RUN: qopt-opt %s | qopt-opt | filecheck %s

// Storage: any width from 1 to 32, signed or unsigned; bounds equal to the full
// range are not printed.
// CHECK: func.func private @storage(!quant.any<i8>, !quant.any<u4:f32>, !quant.uniform<i1:f32, 5.000000e-01>, !quant.uniform<u32:f64, 5.000000e-01>, !quant.uniform<i8<-8:7>:f32, 1.000000e+00>, !quant.uniform<i8:f32, 1.000000e+00>, !quant.uniform<u8<16:240>:f32, 1.000000e+00>)
func.func private @storage(
  !quant.any<i8>, !quant.any<u4:f32>, !quant.uniform<i1:f32, 0.5>, !quant.uniform<u32:f64, 0.5>,
  !quant.uniform<i8<-8:7>:f32, 1.0>, !quant.uniform<i8<-128:127>:f32, 1.0>,
  !quant.uniform<u8<0x10:0xF0>:f32, 1.0>)

// Per tensor: a scale and a zero point, elided when 0.
// CHECK: func.func private @per_tensor(!quant.uniform<i8:f32, 1.000000e-01:-5>, !quant.uniform<u8:f16, 1.000000e-01>)
func.func private @per_tensor(!quant.uniform<i8:f32, 0.1:-5>, !quant<uniform<u8:f16, 0.1:0>>)

// Per axis: nested braces are flattened, parameters are joined without a space.
// CHECK: func.func private @per_axis(tensor<4x2x!quant.uniform<i8:f32:1, {2.000000e+00:3,3.000000e+00}>>, !quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>)
func.func private @per_axis(
  tensor<4x2x!quant.uniform<i8:f32:1, { 2.0:3 , 3.0 }>>, !quant.uniform<i8:f32:0, {{2.0}, 3.0}>)

// Sub-channel: scales are values of the expressed type (0.1 is not an f16).
// CHECK: func.func private @sub_channel(!quant.uniform<i8:f32:{0:1, 1:2}, {{[{][{]}}2.000000e+00:120, 3.000000e+00:127}, {4.000000e+00, 5.000000e+00}}>, !quant.uniform<i4:f16:{1:32}, {{[{][{]}}9.997550e-02}}>, !quant.uniform<i8:f32:{}, {2.000000e+00}>)
func.func private @sub_channel(
  !quant.uniform<i8:f32:{0:1,1:2}, {{2.0:120, 3.0:127}, {4.0, 5.0}}>,
  !quant.uniform<i4:f16:{1:32}, {{0.1}}>, !quant.uniform<i8:f32:{}, {2.0}>)

// CHECK: func.func private @calibrated(!quant.calibrated<f32<-0.998:1.232100e+00>>)
func.func private @calibrated(!quant.calibrated<f32<-0.998:1.2321>>)

// Floats: six digits if they are exact, else as many as needed, else bits.
// CHECK: func.func private @floats(!quant.uniform<i8:f32, 0.0039215686274509803>, !quant.uniform<i8:f32, 0x419D6F3454000000>, !quant.uniform<i8:f64, 1.7976931348623157E+308>)
func.func private @floats(
  !quant.uniform<i8:f32, 0.0039215686274509803>, !quant.uniform<i8:f32, 123456789.0>,
  !quant.uniform<i8:f64, 1.7976931348623157e308>)

// Aliases are read, and never printed.
// CHECK: func.func private @alias(tensor<2x!quant.uniform<i8:f32, 2.000000e+00>>)
!q = !quant.uniform<i8:f32, 2.0>
func.func private @alias(tensor<2x!q>)
