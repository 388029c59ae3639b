"""The table of an image: what `cuModuleGetFunction` and its kin find there, as assembly."""

from __future__ import annotations

from .objects import Kernel, Symbol, shown_name

ABI = 1


def table(
    kernels: list[Kernel],
    variables: list[Symbol],
    constants: set[str],
    source_path: str,
    is_instrumented: bool,
) -> str:
    """Assembly that defines `simt_image` (see native/abi.h) for either processor."""
    texts: list[str] = []

    def text(value: str) -> str:
        texts.append(value)
        return f".Lsimt_text{len(texts) - 1}"

    lines = ['  .section .data.rel.ro,"aw"', "  .balign 8", ".Lsimt_kernels:"]
    for k in kernels:
        lines.append(f"  .quad {text(k.name)}, {k.call}, {k.sizes}, {k.offsets}")
        lines.append(f"  .long {k.num_args}, {k.max_threads}, {k.static_bytes}, {k.window_bytes}")
    lines.append(".Lsimt_globals:")
    for v in variables:
        lines.append(f"  .quad {text(shown_name(v.name))}, {v.name}, {v.size}")
        lines.append(f"  .long {int(v.name in constants)}, 0")
    lines += [
        "  .globl simt_image",
        "  .type simt_image, %object",
        "simt_image:",
        f"  .long {ABI}, {int(is_instrumented)}",
        f"  .quad .Lsimt_kernels\n  .long {len(kernels)}, 0",
        f"  .quad .Lsimt_globals\n  .long {len(variables)}, 0",
        f"  .quad {text(source_path)}",
        "  .size simt_image, . - simt_image",
        '  .section .rodata.simt,"a"',
    ]
    for n, value in enumerate(texts):
        lines.append(f".Lsimt_text{n}: .asciz {_string(value)}")
    if is_instrumented:  # the listing shows it: PyCUDA deletes the file
        lines += ['  .section .simt.source,"",%progbits', f"  .incbin {_string(source_path)}"]
    lines.append('  .section .note.GNU-stack,"",%progbits')
    return "\n".join(lines) + "\n"


def _string(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
