"""Which arithmetic a process computes in: set before torch, told where it is not, the same bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedgrain import arithmetic

TESTS = Path(__file__).parent
AVX_512_OFF = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}
PORTABLE_BITS = {  # of torch 2.13.0 with numpy 2.4.6; scripts/other_cpus.py shows them elsewhere
    "flat-softmax": "e4c79741ecb21f76",
    "ps-softmax": "696e8ebebf064247",
    "cond-sigmoid": "81b5b09ec3011d03",
    "cond-softmax": "39c73cec5a2c8922",
    "softmax-descendant": "009a838748c278a2",
    "softmax-margin": "c4168b3a911ffad8",
    "last batch": "b1cc328f417db433",
    "squeezenet": "6ca03bbbd1d1aac2",
    "numpy": "7b744e5ea5e882e0",
}
TELL = "import fedgrain\nfrom fedgrain.arithmetic import in_use\nprint(in_use())\n"
portable = pytest.mark.skipif(not arithmetic._has_avx2(), reason="needs x86-64 with AVX2")


def python(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Start Python as from a shell in which nobody has set anything about arithmetic."""
    ours = {name for settings in arithmetic.SETTINGS.values() for name in settings}
    ours |= {arithmetic.VARIABLE, arithmetic._NOTE}
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env={**clean, "PYTHONPATH": str(TESTS), **variables},
        check=False,
    )


@pytest.mark.arithmetic
@pytest.mark.parametrize("inputs", [3, 5, 64, 1600])
@pytest.mark.parametrize("outputs", [1, 7, 8, 100])
def test_a_row_does_not_depend_on_its_place_in_a_batch(inputs, outputs) -> None:
    """MKL by itself gives the 32 rows of ``Linear(5, 8)`` three different results."""
    random = torch.Generator().manual_seed(0)
    row = torch.randn(1, inputs, generator=random)
    weights = torch.randn(outputs, inputs, generator=random)
    found = functional.linear(row.expand(32, inputs).contiguous(), weights, torch.zeros(outputs))
    assert len({tuple(each) for each in found.tolist()}) == 1


@portable
@pytest.mark.arithmetic
@pytest.mark.skipif(
    not torch.__version__.startswith("2.13.0") or np.__version__ != "2.4.6",
    reason="another build has other bits",
)
def test_portable_bits_are_the_same_on_every_cpu() -> None:
    """Held against figures, so that whoever runs this on another CPU compares it with ours."""
    switched = {name: os.environ[name] for name in AVX_512_OFF if name in os.environ}
    done = python(str(TESTS / "portable_bits.py"), **switched, FEDGRAIN_ARITHMETIC="portable")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["arithmetic"] == "portable"
    assert found["bits"] == PORTABLE_BITS


def test_without_a_word_the_default_is_settled_before_torch() -> None:
    done = python("-W", "error", "-c", TELL)
    mode = arithmetic.DEFAULT if arithmetic._has_avx2() else "native"
    assert (done.stdout, done.stderr) == (f"{mode}\n", "")


def test_fedgrain_after_torch_says_what_does_not_hold() -> None:
    done = python("-c", f"import torch\n{TELL}", FEDGRAIN_ARITHMETIC="native")
    assert done.stderr.count("ArithmeticWarning") == 1
    for part in ("after torch", "may depend on its batch", "import fedgrain first", "AUTO,STRICT"):
        assert part in done.stderr
    assert done.stdout == "native, but set after torch was loaded\n"
    quiet = python(
        "-W", "error", "-c", f"import torch\n{TELL}",
        FEDGRAIN_ARITHMETIC="native", MKL_CBWR="AUTO,STRICT",
    )  # fmt: skip
    assert (quiet.stdout, quiet.stderr) == ("native\n", "")


def test_what_the_user_set_stays_and_is_named() -> None:
    child = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', sys.argv[1]])"
    done = python("-c", f"{TELL}{child}", TELL, MKL_CBWR="AVX2", FEDGRAIN_ARITHMETIC="native")
    assert done.stderr.count("ArithmeticWarning") == 1, "once, not again in a process it starts"
    assert "MKL_CBWR=AVX2 was set outside fedgrain and stays" in done.stderr
    assert "may depend on its batch" in done.stderr
    assert done.stdout.splitlines() == ["native, but MKL_CBWR=AVX2"] * 2
    strict = python("-c", TELL, MKL_CBWR="AVX2,STRICT", FEDGRAIN_ARITHMETIC="native")
    assert "not those of native arithmetic" in strict.stderr
    assert "batch" not in strict.stderr


@portable
def test_a_process_may_choose_another_mode_than_the_one_that_started_it() -> None:
    script = (
        f"{TELL}import os, subprocess, sys\n"
        "os.environ['FEDGRAIN_ARITHMETIC'] = 'native'\n"
        "subprocess.run([sys.executable, '-W', 'error', '-c', sys.argv[1]])\n"
    )
    names = list(arithmetic.SETTINGS["portable"])
    tell_all = f"{TELL}import os\nprint([n for n in {names} if n in os.environ])"
    done = python("-W", "error", "-c", script, tell_all, FEDGRAIN_ARITHMETIC="portable")
    assert done.stdout.splitlines() == ["portable", "native", "['MKL_CBWR']"], done.stderr


def test_a_mode_that_does_not_exist_is_refused_in_one_sentence(tmp_path) -> None:
    words = ("-m", "fedgrain.cli", "run", "--dataset", "own_parts:few_glyphs", "--rounds", "1")
    done = python(*words, "--out", str(tmp_path / "run"), FEDGRAIN_ARITHMETIC="exact")
    assert done.returncode == 2
    told = "FEDGRAIN_ARITHMETIC is 'exact'; choose one of native, portable, or unset it"
    assert done.stderr.splitlines()[-1] == f"fedgrain: error: {told}"
    assert not (tmp_path / "run").exists()


def test_without_avx2_portable_is_refused_and_the_default_is_native(monkeypatch) -> None:
    monkeypatch.setattr(arithmetic, "_has_avx2", lambda: False)
    monkeypatch.setattr(arithmetic, "_settled", arithmetic._settled)
    monkeypatch.setattr(os, "environ", {arithmetic.VARIABLE: "portable", "MKL_CBWR": "AUTO,STRICT"})
    arithmetic.settle()
    with pytest.raises(arithmetic.ConfigError, match="needs an x86-64 CPU with AVX2"):
        arithmetic.in_use()
    del os.environ[arithmetic.VARIABLE]
    monkeypatch.setattr(arithmetic, "DEFAULT", "portable")
    arithmetic.settle()
    assert arithmetic.in_use() == "native"


@portable
def test_a_study_by_name_computes_portably(tmp_path) -> None:
    words = [
        "study",
        "demo",
        "--datasets",
        "own_parts:few_glyphs",
        "--seeds",
        "47",
        "--rounds",
        "1",
    ]
    words += ["--methods", "flat-softmax/paper", "--alphas", "0", "--jobs", "1"]
    done = python("-m", "fedgrain.cli", *words, "--out", str(tmp_path / "demo"))
    assert done.returncode == 0, done.stderr
    (written,) = tmp_path.glob("demo/runs/**/environment.json")
    assert json.loads(written.read_text())["arithmetic"] == "portable"
