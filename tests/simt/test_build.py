"""Building, finding and switching on the emulated driver; the table of GPUs; the command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from colibri_lab.simt import build, driver, gpus, pycuda_build, toolkit
from colibri_lab.simt import compiler as simt_compiler

# ---- GPUs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["A100", "a100", "RTX 4090", "rtx4090", "4090", "a100-80gb"])
def test_gpus_are_found_by_any_spelling(name):
    assert gpus.find(name).name in gpus.GPUS


def test_an_unknown_gpu_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"gpu: one of T4, .* expected, found 'A1000'"):
        gpus.find("A1000")


@pytest.mark.parametrize("gpu", gpus.GPUS.values(), ids=lambda gpu: gpu.name)
def test_a_gpu_s_numbers_agree_with_each_other(gpu):
    # Two operations a fused multiply-add: 64 lanes a multiprocessor on 7.5 and 8.0, 128 since.
    lanes = 64 if gpu.compute_capability in ((7, 5), (8, 0)) else 128
    tflops = 2 * lanes * gpu.multiprocessors * gpu.clock_mhz / 1e6
    assert tflops == pytest.approx(gpu.fp32_tflops, rel=0.03)
    # Two transfers a clock, over a bus of so many bits.
    gbps = 2 * gpu.memory_clock_mhz * gpu.bus_bits / 8 / 1000
    assert gbps == pytest.approx(gpu.bandwidth_gbps, rel=0.03)
    assert gpu.limits.shared_per_block_optin_bytes <= gpu.limits.shared_per_multiprocessor_bytes
    assert max(gpus.attributes(gpu).values()) < 2**31


# ---- the library --------------------------------------------------------------------------------


def test_the_library_is_built_once():
    path = build.library_path()
    before = path.stat().st_mtime_ns
    assert build.library_path() == path
    assert path.stat().st_mtime_ns == before
    assert path.name == "libcuda.so.1"


def test_all_that_pycuda_binds_is_there():
    if shutil.which("nm") is None:
        pytest.skip("nm (binutils) is not installed")

    def symbols(path, flag):
        done = subprocess.run(["nm", "-D", flag, path], capture_output=True, text=True, check=True)
        return {line.split()[-1].partition("@")[0] for line in done.stdout.splitlines()}

    try:
        from pycuda import __file__ as package
    except ImportError:
        pytest.skip("PyCUDA is not installed: make pycuda")
    (extension,) = Path(package).parent.glob("_driver*.so")
    wanted = {name for name in symbols(extension, "--undefined-only") if name.startswith("cu")}
    assert len(wanted) > 100
    assert wanted <= symbols(build.library_path(), "--defined-only")


def test_a_processor_without_a_switch_is_refused(monkeypatch):
    monkeypatch.setattr(build.platform, "machine", lambda: "riscv64")
    with pytest.raises(build.BuildError, match=r"x86_64 or aarch64, this is Linux on riscv64"):
        build.sources()


def test_what_the_compiler_said_is_passed_on(tmp_path):
    source = tmp_path / "bad.cpp"
    source.write_text("int f() { return nonsense; }\n")
    with pytest.raises(build.BuildError, match=r"bad\.cpp:1:.*nonsense"):
        build.compile_library(simt_compiler.find_compiler(), [source], tmp_path / "made.so")
    assert not (tmp_path / "made.so").exists()


def test_old_libraries_are_deleted(tmp_path):
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        os.utime(folder, (number, number))
    build._delete_old(tmp_path, tmp_path / "0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "4", "5", "6", "7"]


# ---- the command --------------------------------------------------------------------------------


def test_our_nvcc_comes_first_and_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    toolkit.put_first_on_path()
    toolkit.put_first_on_path()
    first, *others = os.environ["PATH"].split(":")
    assert others == ["/usr/bin", "/bin"]
    assert shutil.which("nvcc") == f"{first}/nvcc"
    assert (Path(first).parent / "lib64" / "libcudadevrt.a").read_bytes() == b"!<arch>\n"


# ---- switching on -------------------------------------------------------------------------------


def run(*args, script=None, **environment):
    """Another Python process: its output, error output and exit status."""
    done = subprocess.run(
        [sys.executable, *args],
        input=None if script is None else textwrap.dedent(script),
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    return done.stdout, done.stderr, done.returncode


def test_a_real_driver_is_left_alone(monkeypatch):
    monkeypatch.setattr(driver, "_DRIVER_SIGNS", ("/",))
    monkeypatch.setattr(driver, "_enabled", {})
    assert driver.has_real_driver()
    assert not driver.enable()
    assert not driver.is_enabled()
    with pytest.raises(RuntimeError, match=r"call colibri_lab\.simt\.enable"):
        driver.current_gpu()


def test_the_environment_chooses_gpu_and_seed():
    script = """
        import os
        from colibri_lab import simt
        assert simt.enable()
        print(simt.current_gpu().name, os.environ["COLIBRI_SIMT_SEED"])
    """
    out, err, _ = run("-", script=script, COLIBRI_SIMT_GPU="h100", COLIBRI_SIMT_SEED="5")
    assert out == "H100 5\n", err
    _, err, status = run("-", script=script, COLIBRI_SIMT_SEED="-1")
    assert status == 1
    assert "ValueError: seed: a whole number of 0 to 2**64 - 1 expected, found '-1'" in err


def test_another_gpu_is_refused_once_the_device_was_used():
    script = """
        import ctypes
        from colibri_lab import simt
        simt.enable("T4")
        simt.enable("A100")  # nobody has looked yet
        cuda = ctypes.CDLL(None)
        cuda.cuInit(0)
        cuda.cuDeviceGet(ctypes.byref(ctypes.c_int()), 0)
        simt.enable("A100")
        try:
            simt.enable("T4")
        except RuntimeError as error:
            print(error)
    """
    out, err, _ = run("-", script=script)
    expected = "gpu: this process already uses the emulated A100; start another one for T4\n"
    assert out == expected, err


def test_without_enable_there_is_no_device():
    script = f"""
        import ctypes
        cuda = ctypes.CDLL({str(build.library_path())!r})
        text = ctypes.c_char_p()
        code = cuda.cuInit(0)
        cuda.cuGetErrorString(code, ctypes.byref(text))
        print(code, text.value.decode())
        print(cuda.cuDeviceGetCount(ctypes.byref(ctypes.c_int())))
    """
    out, err, _ = run("-", script=script)
    first, second = out.splitlines()
    assert first.startswith("100 no CUDA-capable device is detected: call colibri_lab.simt.enable")
    assert second == "3", err


# ---- python -m colibri_lab.simt -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: SCRIPT"),
        (["nowhere.py"], "nowhere.py: no such file"),
        (["--gpu", "A1", __file__], "gpu: one of T4"),
        (["--seed", "-2", __file__], "seed: a whole number"),
        (["--analysis", "all,speed", __file__], "counters, memory, races or all expected"),
    ],
)
def test_wrong_words_are_answered(words, said):
    out, err, status = run("-m", "colibri_lab.simt", *words)
    assert (out, status) == ("", 2)
    assert said in err


def test_a_module_runs_too(tmp_path):
    (tmp_path / "hello.py").write_text("import sys; print(__name__, sys.argv[1:])")
    words = ("-m", "colibri_lab.simt", "-m", "hello", "a", "--b")
    out, err, status = run(*words, PYTHONPATH=f"{tmp_path}:{Path(__file__).parents[2]}")
    assert (out, status) == ("__main__ ['a', '--b']\n", 0), err


# ---- PyCUDA's build -----------------------------------------------------------------------------


def test_a_wheel_that_is_there_is_not_built_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = pycuda_build._kept_wheels(pycuda_build.VERSION)
    folder.mkdir(parents=True)
    (folder / "pycuda-1-any.whl").touch()
    assert pycuda_build.main(["--wheel"]) == 0
    assert capsys.readouterr().out == f"{folder / 'pycuda-1-any.whl'}\n"


def test_a_build_that_fails_says_what_failed(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no venv here >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(pycuda_build.sys, "executable", str(broken))
    assert pycuda_build.main(["--wheel"]) == 1
    err = capsys.readouterr().err
    assert err == f"PyCUDA was not built: `{broken} -m venv tools …` failed:\nno venv here\n"


def test_curandom_is_mended_where_curand_is_absent(tmp_path):
    package = tmp_path / "pycuda"
    package.mkdir()
    text = "get = _curand.get_curand_version\nif get_curand_version() >= (4, 0, 0):\n    pass\n"
    (package / "curandom.py").write_text(text)
    pycuda_build._mend(tmp_path)
    assert (package / "curandom.py").read_text().splitlines() == [
        'get = getattr(_curand, "get_curand_version", lambda: None)',
        "if (get_curand_version() or (0,)) >= (4, 0, 0):",
        "    pass",
    ]
