// void simt_switch(void **save_sp, void *load_sp): leaves one stack for another, keeping the
// registers that a call keeps.
#if defined(__x86_64__)
  .text
  .globl simt_switch
  .hidden simt_switch
  .type simt_switch, @function
simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size simt_switch, . - simt_switch

// A new fiber begins here: the return address 0 ends every backtrace.
  .globl simt_enter_fiber
  .hidden simt_enter_fiber
  .type simt_enter_fiber, @function
simt_enter_fiber:
  .cfi_startproc
  .cfi_undefined rip
  xorl %ebp, %ebp
  call simt_fiber_main
  ud2
  .cfi_endproc
  .size simt_enter_fiber, . - simt_enter_fiber
#endif
  .section .note.GNU-stack, "", %progbits
