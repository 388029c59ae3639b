"""The compiler command: how kernels are found, what errors say, and what the cache spares."""

from __future__ import annotations

import subprocess
import time

import numpy as np
import pytest

from colibri_lab.simt import compiler, toolkit
from colibri_lab.simt.compiler import CompileError
from colibri_lab.simt.nvcc_arguments import parse
from tests.simt.grids import Module, compile_text
from tests.simt.grids import source as text_of


@pytest.fixture(scope="module")
def nested():
    made = Module(text_of("nesting.cu"))
    yield made
    made.close()


def test_kernels_are_found_in_any_nesting(nested):
    names = {
        n
        for n in nested.kernels
        if not any(word in n for word in ("apply", "hidden", "restricted"))
    }
    assert names == {
        "inner", "by_macro", "single", "after_host_code",
        "_Z7mangledPif", "_Z10overloadedPi", "_Z10overloadedPf",
        "_ZN1a1b4deepEPi", "_Z4madeIiLi32ELb1EJEEvPT_S0_DpT2_",
        "_Z4madeIdLi64ELb0EJifEEvPT_S0_DpT2_", "_Z7specialIfEvPT_", "_Z7specialIiEvPT_",
        "_Z8by_value3BoxIdEc6__halfPd4dim3",
    }  # fmt: skip
    assert sum("apply" in n for n in nested.kernels) == 2  # for a lambda, for a function
    assert sum("hidden" in n for n in nested.kernels) == 1


@pytest.mark.parametrize(
    ("kernel", "value"),
    [
        ("inner", 1),
        ("by_macro", 2),
        ("single", 3),
        ("_Z10overloadedPi", 5),
        ("_ZN1a1b4deepEPi", 7),
        ("after_host_code", 2),
    ],
)
def test_each_runs(nested, kernel, value):
    out = np.zeros(1, np.int32)
    nested.run(kernel, 1, 1, out)
    assert out[0] == value


def test_instantiations_have_their_own_shared_memory_and_bounds(nested):
    small = nested.kernels["_Z4madeIiLi32ELb1EJEEvPT_S0_DpT2_"]
    large = nested.kernels["_Z4madeIdLi64ELb0EJifEEvPT_S0_DpT2_"]
    assert (small.static_shared_bytes, small.max_threads) == (128, 32)
    assert (large.static_shared_bytes, large.max_threads) == (512, 64)
    out = np.zeros(64)
    nested.run(
        "_Z4madeIdLi64ELb0EJifEEvPT_S0_DpT2_", 1, 64, out, np.float64(5), np.int32(0), np.float32(0)
    )
    np.testing.assert_array_equal(out, 7)


def test_function_parameters_and_restrict(nested):
    (name,) = (n for n in nested.kernels if "restricted" in n)
    out = np.zeros(4, np.int32)
    nested.run(name, 1, 4, np.arange(4, dtype=np.int32), out)
    np.testing.assert_array_equal(out, [0, 2, 4, 6])


def test_arguments_of_unlike_sizes(nested):
    name = "_Z8by_value3BoxIdEc6__halfPd4dim3"
    kernel = nested.kernels[name]
    offsets = [kernel.arg_offsets[i] for i in range(5)]
    assert offsets == [0, 8, 10, 16, 24]
    out = np.zeros(2)
    nested.run(
        name,
        1,
        1,
        np.float64(2.5),
        np.int8(3),
        np.float16(0.5),
        out,
        np.array([7, 8, 9], np.uint32)[:].view("V12")[0],
    )
    np.testing.assert_array_equal(out, [5.5, 8.5])


def test_variables_in_namespaces(nested):
    np.testing.assert_array_equal(nested.variable("_ZN1a5tableE", np.float32), [1, 2, 3])
    assert nested.globals["_ZN1a4sizeE"].is_constant == 1
    assert nested.variable("kept", np.int32).shape == (1,)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("undeclared = 3;", "'undeclared'"),
        ("int x = ;", "expected"),
        ("__shared__ int s = 3;", "cannot be initialised"),
        ("__syncthread();", "__syncthread"),
    ],
)
def test_errors_name_the_users_own_line(line, says):
    head = "// a comment\n#define TWO \\\n 2\n__global__ void k(int *o) {\n  o[0] = TWO;\n"
    with pytest.raises(CompileError) as caught:
        compile_text(f"{head}  {line}\n}}\n", name="mine.cu")
    text = str(caught.value).replace("\u2018", "'").replace("\u2019", "'")
    assert "mine.cu:6:" in text
    assert says in text


def test_line_directives_are_kept():
    with pytest.raises(CompileError, match=r"real\.cu:41:"):
        compile_text('#line 40 "real.cu"\n__global__ void k() {\n  nonsense;\n}\n')


def test_a_kernel_must_be_a_function():
    with pytest.raises(CompileError, match=r"kernel\.cu:2: error: __global__"):
        compile_text("\n__global__ int x;\n")


def test_includes_of_the_users_own(tmp_path):
    (tmp_path / "mine.h").write_text("__device__ int half_of(int v) { return v / DIVISOR; }\n")
    source = '#include "mine.h"\nextern "C" __global__ void k(int *o) { o[0] = half_of(o[0]); }\n'
    options = ("-I", str(tmp_path), "-DDIVISOR=2")
    module = Module(source, *options)
    out = np.array([8], np.int32)
    module.run("k", 1, 1, out)
    assert out[0] == 4
    (tmp_path / "mine.h").write_text("__device__ int half_of(int v) { return v * 100; }\n")
    changed = Module(source, *options)
    changed.run("k", 1, 1, out)
    assert out[0] == 400
    module.close()
    changed.close()


def test_macros_that_sources_ask_for():
    source = """
    #if __CUDA_ARCH__ != 800 || __CUDACC_VER_MAJOR__ < 12 || !defined(__CUDACC__)
    #error wrong
    #endif
    extern "C" __global__ void k(int *o) { o[0] = __CUDA_ARCH__; }
    """
    assert compile_text(source, "-arch", "sm_80")[:4] == b"\x7fELF"
    with pytest.raises(CompileError, match="wrong"):
        compile_text(source, "-arch=sm_90")


def test_arguments():
    words = (
        "--cubin -arch=sm_86 -I/a -I /b -DX=1 -D Y --use_fast_math -Xptxas -v -O3 -std=c++20 "
        "--fmad=false -Xcompiler -fopenmp,-O2 --maxrregcount=32 -o out.bin k.cu"
    )
    args = parse(words.split(" "))
    assert args.sources == ["k.cu"]
    assert args.passed == ["-I/a", "-I/b", "-DX=1", "-DY"]
    assert (args.arch, args.std, args.output, args.target) == (86, "20", "out.bin", "cubin")
    assert args.compiler == ["-ffp-contract=off", "-fopenmp", "-O2"]


def test_the_command(tmp_path):
    command = toolkit.write_command(tmp_path)
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k() {}\n')
    (tmp_path / "bad.cu").write_text("__global__ void k() { nonsense; }\n")

    def run(*args):
        return subprocess.run(
            [command, *args], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    version = run("--version")
    assert version.returncode == 0
    assert "release 13.0" in version.stdout
    assert run("--preprocess", "k.cu").stdout.count("__global__") == 1
    assert run("--cubin", "-arch", "sm_75", "k.cu").returncode == 0
    assert (tmp_path / "k.cubin").read_bytes()[:4] == b"\x7fELF"
    bad = run("--cubin", "bad.cu")
    assert bad.returncode == 1
    assert "bad.cu:1:" in bad.stderr
    assert not (tmp_path / "bad.cubin").exists()
    assert run("--cubin", "none.cu").returncode == 1


def test_the_second_time_comes_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = 'extern "C" __global__ void k(int *o) { o[0] = 1; }\n'
    started = time.perf_counter()
    first = compile_text(source)
    middle = time.perf_counter()
    monkeypatch.setattr(compiler, "build", None)
    monkeypatch.setattr(compiler, "preprocess", None)
    assert compile_text(source) == first
    assert time.perf_counter() - middle < (middle - started) / 2
    with pytest.raises(TypeError):
        compile_text(source + "\n")


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compile_text('extern "C" __global__ void k() {}\n')[:4] == b"\x7fELF"


def test_the_key_names_the_checks(monkeypatch):
    plain = compiler.version_text()
    monkeypatch.setenv("COLIBRI_SIMT_ANALYSIS", "memory")
    assert compiler.version_text() != plain
