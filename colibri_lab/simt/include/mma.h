// nvcuda::wmma: matrix fragments spread over a warp. The last lane to come multiplies for all.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

extern "C++" {
namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}

namespace details {
template <class T> struct Storage { using Type = T; };
template <> struct Storage<precision::tf32> { using Type = float; };
template <class Use, int m, int n, int k> struct Shape;
template <int m, int n, int k> struct Shape<matrix_a, m, n, k> { static constexpr int rows = m, columns = k; };
template <int m, int n, int k> struct Shape<matrix_b, m, n, k> { static constexpr int rows = k, columns = n; };
template <int m, int n, int k> struct Shape<accumulator, m, n, k> { static constexpr int rows = m, columns = n; };
}  // namespace details

// Element i of lane l is the matrix' element 32 * i + l, by rows. (Where elements lie is unspecified
// on the hardware, too.)
template <class Use, int m, int n, int k, class T, class Layout = void> struct fragment {
  using element_type = T;
  using storage_element_type = typename details::Storage<T>::Type;
  static constexpr int rows = details::Shape<Use, m, n, k>::rows;
  static constexpr int columns = details::Shape<Use, m, n, k>::columns;
  static constexpr int num_elements = rows * columns / 32;
  static constexpr int num_storage_elements = num_elements;
  storage_element_type x[num_elements];
};

template <class Use, int m, int n, int k, class T, class L, class V>
SIMT_FN void fill_fragment(fragment<Use, m, n, k, T, L> &f, V value) {
  for (auto &x : f.x) x = (typename details::Storage<T>::Type)value;
}

namespace details {
template <class F, class P> SIMT_FN void load(F &f, const P *p, unsigned stride, bool by_rows) {
  for (int i = 0; i < F::num_elements; i++) {
    unsigned at = 32 * i + simt::lane(), row = at / F::columns, column = at % F::columns;
    f.x[i] = p[by_rows ? row * stride + column : column * stride + row];
  }
  __syncwarp();
}
}  // namespace details
template <class Use, int m, int n, int k, class T, class L, class P>
SIMT_FN void load_matrix_sync(fragment<Use, m, n, k, T, L> &f, const P *p, unsigned stride) {
  details::load(f, p, stride, std::is_same<L, row_major>::value);
}
template <int m, int n, int k, class T, class P>
SIMT_FN void load_matrix_sync(fragment<accumulator, m, n, k, T> &f, const P *p, unsigned stride, layout_t layout) {
  details::load(f, p, stride, layout == mem_row_major);
}
template <int m, int n, int k, class T, class P>
SIMT_FN void store_matrix_sync(P *p, const fragment<accumulator, m, n, k, T> &f, unsigned stride, layout_t layout) {
  using F = fragment<accumulator, m, n, k, T>;
  for (int i = 0; i < F::num_elements; i++) {
    unsigned at = 32 * i + simt::lane(), row = at / F::columns, column = at % F::columns;
    p[layout == mem_row_major ? row * stride + column : column * stride + row] = f.x[i];
  }
  __syncwarp();
}
SIMT_FN float __float_to_tf32(float v) {  // to 10 bits of mantissa, half away from zero
  return __uint_as_float((__float_as_uint(v) + 0x1000u) & 0xffffe000u);
}

namespace details {
template <class D, class A, class B, class C> struct Mma {
  D *d;
  const A *a;
  const B *b;
  const C *c;
};
template <class T> struct Sum { using Type = float; };
template <> struct Sum<int> { using Type = int; };
template <> struct Sum<double> { using Type = double; };

template <class M, class F, class S, class Get>
SIMT_FN void gather(void *const *slots, S *out, Get get) {
  for (int i = 0; i < F::num_elements; i++)
    for (int lane = 0; lane < 32; lane++) out[32 * i + lane] = (S)get((M *)slots[lane])->x[i];
}
template <class D, class A, class B, class C, class S>
SIMT_COMBINE void multiply(void *const *slots, uint32_t lanes, uint32_t) {
  constexpr int m = A::rows, n = B::columns, k = A::columns;
  using M = Mma<D, A, B, C>;
  S a[m * k], b[k * n], c[m * n];
  if (lanes != 0xffffffffu) return;  // undefined on the hardware, too
  gather<M, A>(slots, a, [](M *p) { return p->a; });
  gather<M, B>(slots, b, [](M *p) { return p->b; });
  gather<M, C>(slots, c, [](M *p) { return p->c; });
  for (int i = 0; i < m; i++)
    for (int l = 0; l < k; l++)
      for (int j = 0; j < n; j++) c[i * n + j] += a[i * k + l] * b[l * n + j];
  for (int i = 0; i < D::num_elements; i++)
    for (int lane = 0; lane < 32; lane++)
      ((M *)slots[lane])->d->x[i] = (typename D::storage_element_type)c[32 * i + lane];
}
}  // namespace details

template <int m, int n, int k, class TD, class T, class LA, class LB, class TC>
SIMT_FN void mma_sync(fragment<accumulator, m, n, k, TD> &d, const fragment<matrix_a, m, n, k, T, LA> &a,
                      const fragment<matrix_b, m, n, k, T, LB> &b,
                      const fragment<accumulator, m, n, k, TC> &c, bool = false) {
  using D = fragment<accumulator, m, n, k, TD>;
  using A = fragment<matrix_a, m, n, k, T, LA>;
  using B = fragment<matrix_b, m, n, k, T, LB>;
  using C = fragment<accumulator, m, n, k, TC>;
  using S = typename details::Sum<TC>::Type;
  details::Mma<D, A, B, C> mine = {&d, &a, &b, &c};
  simt_warp_meet(0xffffffffu, &mine, details::multiply<D, A, B, C, S>, "wmma::mma_sync",
                 SIMT_WARP_EXCHANGE);
}
}  // namespace wmma
}  // namespace nvcuda
}
