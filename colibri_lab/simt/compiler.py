"""The compiler command: CUDA C++ in, an image for the emulated device out.

`main` is what the `nvcc` command runs. It starts in a few milliseconds and imports little, since
PyCUDA calls it anew for each source.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

from . import analysis_flags
from .nvcc_arguments import Arguments, parse
from .store import cache_folder, dependencies, digest, own_part, read, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .rewrite import Rewritten

INCLUDE = Path(__file__).parent / "include"
_CUDA_VERSION = ("13", "0", "88")
_OPTIMISE = (
    "-O3",
    "-g1",
    "-ffp-contract=fast",  # a GPU fuses multiply and add by default
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-strict-aliasing",  # *(float4 *)&x is everyday CUDA
    "-fvisibility=hidden",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-stack-protector",
    "-fno-optimize-sibling-calls",  # a return address names the line that called
    "-w",
)
# Two branches that end alike stay two: who meets in a warp intrinsic depends on it.
_GCC_ONLY = ("-fno-crossjumping", "-fno-tree-tail-merge")
_CLANG_ONLY = ("-mllvm", "-enable-tail-merge=false", "-mllvm", "-sink-common-insts=false")
_SPEAKS = "nvcc: NVIDIA (R) Cuda compiler driver (emulated on the CPU by colibri_lab.simt)"


class CompileError(Exception):
    """What the compiler said."""


# ---- surroundings -------------------------------------------------------------------------------


def find_compiler() -> str:
    """The machine's C++ compiler: COLIBRI_SIMT_CXX, CXX, g++ or clang++."""
    for name in (os.environ.get("COLIBRI_SIMT_CXX"), os.environ.get("CXX"), "g++", "clang++"):
        path = shutil.which(name.split()[0]) if name else None
        if path:
            return path
    raise CompileError("no C++ compiler: install g++ or clang++, or name one in COLIBRI_SIMT_CXX")


def is_clang(compiler: str) -> bool:
    """Whether a compiler is Clang, by its name."""
    return "clang" in Path(compiler).resolve().name


def _native_flags() -> list[str]:
    return ["-mcpu=native" if os.uname().machine == "aarch64" else "-march=native"]


def _processor() -> str:
    """What -march=native depends on: images are not shared between unlike machines."""
    wanted = ("model name", "flags", "Features", "CPU part")
    found = [os.uname().machine]
    try:
        with Path("/proc/cpuinfo").open() as lines:
            for line in lines:
                if line == "\n":
                    break
                if line.startswith(wanted):
                    found.append(line)
    except OSError:
        pass
    return "".join(found)


def fingerprint(compiler: str) -> str:
    """Names the compiler, this package's part in it, the processor and the checks chosen."""
    digest = hashlib.sha256(_processor().encode())
    state = Path(compiler).stat()
    digest.update(f"{Path(compiler).resolve()} {state.st_size} {state.st_mtime_ns}".encode())
    folder = Path(__file__).parent
    headers = sorted(path for path in INCLUDE.rglob("*") if path.is_file())
    own = [*sorted(folder.glob("*.py")), *headers, folder / "native/abi.h"]
    for path in own:
        digest.update(path.read_bytes())
    digest.update(",".join(analysis_flags.chosen()).encode())
    return digest.hexdigest()


# ---- preprocessing ------------------------------------------------------------------------------


def _preprocessor_flags(args: Arguments) -> list[str]:
    major, minor, build = _CUDA_VERSION
    defines = {
        "__CUDACC__": "1",
        "__NVCC__": "1",
        "__CUDACC_VER_MAJOR__": major,
        "__CUDACC_VER_MINOR__": minor,
        "__CUDACC_VER_BUILD__": build,
        "__CUDA_ARCH__": f"{args.arch}0",
        "__CUDA_ARCH_LIST__": f"{args.arch}0",
        "COLIBRI_SIMT": "1",
    }
    if analysis_flags.chosen():
        defines["SIMT_INSTRUMENTED"] = "1"
    flags = [f"-D{name}={value}" for name, value in defines.items()]
    flags += [f"-std=gnu++{args.std}", *_native_flags(), "-O2"]
    return [*flags, *args.passed, "-isystem", str(INCLUDE), "-include", "cuda_runtime.h"]


def preprocess(compiler: str, args: Arguments, source: str) -> str:
    """What `-E` prints for a source, CUDA's own words left as they are."""
    return _run([compiler, "-E", "-x", "c++", *_preprocessor_flags(args), source])


def _run(command: list[str]) -> str:
    import subprocess  # here and below: what a hit in the cache does without

    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise CompileError(done.stderr or f"{command[0]} ended with {done.returncode}")
    return done.stdout


# ---- compiling ----------------------------------------------------------------------------------


def _compile_flags(compiler: str, args: Arguments, folder: str) -> list[str]:
    flags = [*_OPTIMISE, *_native_flags(), f"-std=gnu++{args.std}", *args.compiler]
    # Both folders are gone after the compile: lines are told by the file's own name.
    flags += [f"-fdebug-prefix-map={Path.cwd()}=.", f"-fdebug-prefix-map={folder}=."]
    flags += _CLANG_ONLY if is_clang(compiler) else _GCC_ONLY
    if analysis_flags.chosen():
        flags += analysis_flags.instrument_flags(is_clang(compiler))
    return flags


def build(compiler: str, args: Arguments, source: str, preprocessed: str) -> bytes:
    """The image of a preprocessed source."""
    import tempfile

    from .declarations import RewriteError
    from .rewrite import rewrite

    try:
        rewritten = rewrite(preprocessed)
    except RewriteError as error:
        raise CompileError(str(error)) from None
    with tempfile.TemporaryDirectory(prefix="colibri-simt-") as folder:
        # Clang calls the code by this file's name, not the line marker's.
        text, made = Path(folder) / Path(source).name, Path(folder) / "image.o"
        text.write_text(rewritten.source)
        flags = _compile_flags(compiler, args, folder)
        _run([compiler, "-c", "-fPIC", "-x", "c++-cpp-output", *flags, str(text), "-o", str(made)])
        return _link(compiler, made, source, rewritten)


def _link(compiler: str, made: Path, source: str, rewritten: Rewritten) -> bytes:
    """Adds the table of what the object file holds."""
    from .image import table
    from .objects import ObjectFile, lay_out_shared

    obj = ObjectFile(made)
    kernels = obj.kernels()
    lay_out_shared(obj, kernels)
    variables = obj.variables(rewritten.globals)
    constants = {v.name for v in obj.variables(rewritten.constants)}
    local = [name for k in kernels for name in k.local_names]
    local += [v.name for v in variables if v.is_local]
    if local:  # kernels made for a lambda, constants: the table could not name them
        _run(["objcopy", *(f"--globalize-symbol={name}" for name in local), str(made)])
    assembly, image = made.with_name("table.s"), made.with_name("image.so")
    is_instrumented = bool(analysis_flags.chosen())
    assembly.write_text(table(kernels, variables, constants, source, is_instrumented))
    # A kernel may be called conj or scale: its own name comes before the C library's.
    link = ["-shared", "-Wl,-Bsymbolic", str(made), str(assembly), "-lm", "-o", str(image)]
    _run([compiler, *link])
    return image.read_bytes()


# ---- the cache ----------------------------------------------------------------------------------


def preprocessed_source(
    compiler: str, args: Arguments, source: str, mark: str
) -> tuple[str, str, str | None]:
    """What `-E` prints: its digest, the user's own part, and all of it unless from the cache.

    It comes from the cache where no file that was read has changed.
    """
    content = Path(source).read_bytes()
    key = digest(mark, source, content, *args.passed, args.std, str(args.arch))
    path = cache_folder() / "sources" / f"{key}.json"
    kept = read(path)
    if kept is not None:
        record = json.loads(kept)
        if all(digest(read(Path(p)) or b"") == d for p, d in record["files"].items()):
            return record["digest"], record["own"], None
    text = preprocess(compiler, args, source)
    own = own_part(text)
    record = {"files": dependencies(text, source), "digest": digest(text), "own": own}
    write(path, json.dumps(record).encode())
    return record["digest"], own, text


def compile_source(args: Arguments, source: str) -> bytes:
    """The image of one file, from the cache where it has been made before."""
    compiler = find_compiler()
    mark = fingerprint(compiler)
    name, _, text = preprocessed_source(compiler, args, source, mark)
    path = cache_folder() / "images" / f"{digest(mark, name, source, *args.compiler)}.so"
    image = read(path)
    if image is None:
        image = build(compiler, args, source, text or preprocess(compiler, args, source))
        write(path, image)
    return image


def _as_text(image: bytes) -> bytes:
    """In place of PTX, which is text and passed as such (native/driver_link.cpp reads it)."""
    import base64

    return b"//simt-image\n" + base64.encodebytes(image)


# ---- the command --------------------------------------------------------------------------------


def version_text() -> str:
    """What `nvcc --version` prints; PyCUDA's own cache is keyed by it."""
    major, minor, build_number = _CUDA_VERSION
    mark = fingerprint(find_compiler())[:16]
    return (
        f"{_SPEAKS}\n"
        f"Cuda compilation tools, release {major}.{minor}, V{major}.{minor}.{build_number}\n"
        f"Build {mark}\n"
    )


def main(argv: list[str] | None = None) -> int:
    """Runs as nvcc would; returns the exit status."""
    args = parse(sys.argv[1:] if argv is None else argv)
    try:
        if args.shows_version:
            sys.stdout.write(version_text())
            return 0
        if len(args.sources) != 1:
            raise CompileError(f"nvcc: one source file expected, found {len(args.sources)}")
        source = args.sources[0]
        if not Path(source).exists():
            raise CompileError(f"nvcc: {source}: no such file")
        if args.only_preprocesses:
            compiler = find_compiler()
            mark = fingerprint(compiler)
            sys.stdout.write(preprocessed_source(compiler, args, source, mark)[1])
            return 0
        image = compile_source(args, source)
        output = args.output or f"{Path(source).stem}.{args.target}"
        Path(output).write_bytes(_as_text(image) if args.target == "ptx" else image)
        return 0
    except CompileError as error:
        sys.stderr.write(f"{str(error).rstrip()}\n")
        return 1
