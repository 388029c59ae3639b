// CUDA's vector types: sizes and alignments as on the device.
#pragma once

extern "C++" {

#define SIMT_VECTOR(name, type, align2, align4)                                          \
  struct name##1 { type x; };                                                            \
  struct alignas(align2) name##2 { type x, y; };                                         \
  struct name##3 { type x, y, z; };                                                      \
  struct alignas(align4) name##4 { type x, y, z, w; };                                   \
  static inline constexpr name##1 make_##name##1(type x) { return {x}; }                 \
  static inline constexpr name##2 make_##name##2(type x, type y) { return {x, y}; }      \
  static inline constexpr name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  static inline constexpr name##4 make_##name##4(type x, type y, type z, type w) {       \
    return {x, y, z, w};                                                                 \
  }

SIMT_VECTOR(char, signed char, 2, 4)
SIMT_VECTOR(uchar, unsigned char, 2, 4)
SIMT_VECTOR(short, short, 4, 8)
SIMT_VECTOR(ushort, unsigned short, 4, 8)
SIMT_VECTOR(int, int, 8, 16)
SIMT_VECTOR(uint, unsigned int, 8, 16)
SIMT_VECTOR(long, long, 16, 16)
SIMT_VECTOR(ulong, unsigned long, 16, 16)
SIMT_VECTOR(longlong, long long, 16, 16)
SIMT_VECTOR(ulonglong, unsigned long long, 16, 16)
SIMT_VECTOR(float, float, 8, 16)
SIMT_VECTOR(double, double, 16, 16)
#undef SIMT_VECTOR

#define SIMT_WIDE_VECTOR(name, type)                                                       \
  struct alignas(16) name##4_16a { type x, y, z, w; };                                     \
  struct alignas(32) name##4_32a { type x, y, z, w; };                                     \
  static inline constexpr name##4_16a make_##name##4_16a(type x, type y, type z, type w) { \
    return {x, y, z, w};                                                                   \
  }                                                                                        \
  static inline constexpr name##4_32a make_##name##4_32a(type x, type y, type z, type w) { \
    return {x, y, z, w};                                                                   \
  }
SIMT_WIDE_VECTOR(double, double)
SIMT_WIDE_VECTOR(long, long)
SIMT_WIDE_VECTOR(ulong, unsigned long)
SIMT_WIDE_VECTOR(longlong, long long)
SIMT_WIDE_VECTOR(ulonglong, unsigned long long)
#undef SIMT_WIDE_VECTOR

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1)
      : x(vx), y(vy), z(vz) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
}
