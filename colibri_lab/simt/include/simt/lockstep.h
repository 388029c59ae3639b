// Accesses through a pointer to volatile keep a warp's lanes in step (see rewrite_volatile.py).
#pragma once
#include "warp.h"

extern "C" SIMT_CONVERGENT void simt_lockstep(void);

extern "C++" {
namespace simt {

template <class T> struct VolatileReference {
  volatile T *p;
  // The call is opaque, so what is copied plainly after it is loaded then, too.
  SIMT_FN T read(volatile T *from) {
    simt_lockstep();
    if constexpr (std::is_scalar<T>::value) return *from;
    else return *const_cast<T *>(from);
  }
  SIMT_FN void write(volatile T *to, T value) {
    simt_lockstep();
    if constexpr (std::is_scalar<T>::value) *to = value;
    else *const_cast<T *>(to) = value;
  }
  operator T() const { return read(p); }
  T operator=(T value) const { write(p, value); return value; }
  T operator=(const VolatileReference &other) const { return *this = (T)other; }
  volatile T *operator&() const { return p; }
#define SIMT_ASSIGN(op)                                                         \
  template <class V> T operator op##=(V value) const {                          \
    return *this = (T)(read(p) op value);                                       \
  }
  SIMT_ASSIGN(+)
  SIMT_ASSIGN(-)
  SIMT_ASSIGN(*)
  SIMT_ASSIGN(/)
  SIMT_ASSIGN(|)
  SIMT_ASSIGN(&)
  SIMT_ASSIGN(^)
#undef SIMT_ASSIGN
  T operator++() const { return *this = (T)(read(p) + 1); }
  T operator++(int) const { T old = read(p); *this = (T)(old + 1); return old; }
};

// Types with operators of their own (complex numbers) do not see through the conversion.
#define SIMT_BINARY(op)                                                                       \
  template <class T, class U>                                                                 \
  SIMT_FN auto operator op(const VolatileReference<T> &a, const VolatileReference<U> &b) {    \
    T left = a;                                                                               \
    return left op (U)b;                                                                      \
  }                                                                                           \
  template <class T, class U>                                                                 \
  SIMT_FN auto operator op(const VolatileReference<T> &a, const U &b) { return (T)a op b; }   \
  template <class T, class U>                                                                 \
  SIMT_FN auto operator op(const U &a, const VolatileReference<T> &b) { return a op (T)b; }
SIMT_BINARY(+)
SIMT_BINARY(-)
SIMT_BINARY(*)
SIMT_BINARY(/)
SIMT_BINARY(==)
SIMT_BINARY(!=)
SIMT_BINARY(<)
SIMT_BINARY(>)
SIMT_BINARY(<=)
SIMT_BINARY(>=)
#undef SIMT_BINARY

template <class T> struct SteppingPointer {
  volatile T *p;
  SteppingPointer(volatile T *from) : p(from) {}
  operator volatile T *() const { return p; }
  explicit operator T *() const { return const_cast<T *>(p); }
  volatile T *operator->() const { return p; }
  template <class I> VolatileReference<T> operator[](I i) const { return {p + i}; }
  VolatileReference<T> operator*() const { return {p}; }
  SteppingPointer &operator++() { ++p; return *this; }
  SteppingPointer operator++(int) { return SteppingPointer(p++); }
  template <class I> SteppingPointer &operator+=(I n) { p += n; return *this; }
  template <class I> SteppingPointer &operator-=(I n) { p -= n; return *this; }
};
// Plain structs are left alone: their members are accessed one by one.
template <class T>
using VolatilePointer =
    std::conditional_t<std::is_aggregate<T>::value, volatile T *, SteppingPointer<T>>;
template <class T, class I, class = std::enable_if_t<std::is_integral<I>::value>>
SIMT_FN SteppingPointer<T> operator+(const SteppingPointer<T> &a, I n) { return {a.p + n}; }
template <class T, class I, class = std::enable_if_t<std::is_integral<I>::value>>
SIMT_FN SteppingPointer<T> operator-(const SteppingPointer<T> &a, I n) { return {a.p - n}; }

}  // namespace simt

#define SIMT_SHUFFLE(name, A)                                                                  \
  template <class T>                                                                           \
  SIMT_FN T name(unsigned mask, const simt::VolatileReference<T> &v, A arg, int width = 32) {  \
    return name(mask, (T)v, arg, width);                                                       \
  }
SIMT_SHUFFLE(__shfl_sync, int)
SIMT_SHUFFLE(__shfl_up_sync, unsigned)
SIMT_SHUFFLE(__shfl_down_sync, unsigned)
SIMT_SHUFFLE(__shfl_xor_sync, int)
#undef SIMT_SHUFFLE
}
