"""Operations counted in objdump's text, for both processors."""

from colibri_lab.simt.analysis_arithmetic import Operation, operations_in

X86 = """
image.so:     file format elf64-x86-64

0000000000001200 <_Z1kPf>:
    1200:\tpush   %rbx
    1204:\tvmulss %xmm0,%xmm0,%xmm0
    1208:\tcall   1030 <__sanitizer_cov_trace_pc@plt>
    120d:\tvmulss 0x4(%rbx),%xmm0,%xmm1
    1212:\tvfmadd231ss (%rbx),%xmm2,%xmm3
    1217:\tvfnmadd132sd (%rbx),%xmm2,%xmm3
    121b:\tmovss  %xmm0,(%rax)
    121f:\tcall   1040 <expf@plt>
    1224:\tcall   1050 <memcpy@plt>
    1229:\tcall   1030 <__sanitizer_cov_trace_pc@plt>
    122e:\taddps  %xmm0,%xmm1
    1231:\tvaddpd %ymm0,%ymm1,%ymm2
    1235:\tsqrtsd %xmm0,%xmm0
    1239:\tvmaxss %xmm0,%xmm1,%xmm2
    123d:\tvandps %xmm0,%xmm1,%xmm2
    1241:\tadd    $0x4,%rax
    1245:\tret

0000000000001250 <other>:
    1250:\taddss  %xmm0,%xmm1
"""
ARM = """
0000000000000120 <k>:
 120:\tbl\t0 <__sanitizer_cov_trace_pc>
 124:\tfadd\ts8, s8, s10
 128:\tfmadd\td0, d1, d2, d3
 12c:\tfmul\tv0.4s, v1.4s, v2.4s
 130:\tfmaxnm\ts0, s1, s2
 134:\tadd\tx0, x1, x2
 138:\tbl\t40 <logf@plt>
 13c:\tret
"""


def test_x86():
    assert list(operations_in(X86)) == [
        Operation(0x120D, 0x120D, float32=1),
        Operation(0x120D, 0x1212, float32=2),
        Operation(0x120D, 0x1217, float64=2),
        Operation(0x120D, 0x121F, functions=1),
        Operation(0x122E, 0x122E, float32=4),
        Operation(0x122E, 0x1231, float64=4),
        Operation(0x122E, 0x1235, float64=1),
        Operation(0x122E, 0x1239, float32=1),
    ]


def test_aarch64():
    assert list(operations_in(ARM)) == [
        Operation(0x124, 0x124, float32=1),
        Operation(0x124, 0x128, float64=2),
        Operation(0x124, 0x12C, float32=4),
        Operation(0x124, 0x130, float32=1),
        Operation(0x124, 0x138, functions=1),
    ]
