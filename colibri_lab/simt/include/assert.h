// assert in device code: prints as CUDA does, and the launch fails with CUDA_ERROR_ASSERT.
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#ifdef __cplusplus
extern "C" {
#endif
void simt_assert_fail(const char *expression, const char *file, unsigned line,
                      const char *function) __attribute__((noreturn));
#ifdef __cplusplus
}
#endif
#define assert(condition) \
  ((condition) ? (void)0 : simt_assert_fail(#condition, __FILE__, __LINE__, __PRETTY_FUNCTION__))
#endif
#ifndef __cplusplus
#define static_assert _Static_assert
#endif
