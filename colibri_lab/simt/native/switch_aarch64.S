// void simt_switch(void **save_sp, void *load_sp): leaves one stack for another, keeping the
// registers that a call keeps.
#if defined(__aarch64__)
  .text
  .globl simt_switch
  .hidden simt_switch
  .type simt_switch, %function
simt_switch:
  stp x29, x30, [sp, #-160]!
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #160
  ret
  .size simt_switch, . - simt_switch

// A new fiber begins here: its return address, undefined, ends every backtrace.
  .globl simt_enter_fiber
  .hidden simt_enter_fiber
  .type simt_enter_fiber, %function
simt_enter_fiber:
  .cfi_startproc
  .cfi_undefined x30
  mov x29, #0
  mov x30, #0
  bl simt_fiber_main
  brk #1
  .cfi_endproc
  .size simt_enter_fiber, . - simt_enter_fiber
#endif
  .section .note.GNU-stack, "", %progbits
