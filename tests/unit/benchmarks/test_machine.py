"""What is read from /proc/cpuinfo."""

import pytest
from benchmarks.machine import Machine, parse_cpu_info, this_machine

CORE = """processor\t: {number}
vendor_id\t: SomeVendor
model name\t: Some Chip 9 @ 2.0GHz
cpu MHz\t\t: 2000.000
power management:
flags\t\t: fpu sse2 {flags} rdpid
bugs\t\t: avx512f_is_not_a_flag_here
"""


@pytest.mark.parametrize(
    ("flags", "features"),
    [
        ("", ()),
        ("avx avx2 f16c", ("AVX2",)),
        ("avx2 avx_vnni", ("AVX2", "VNNI")),
        ("avx2 avx512f avx512_vnni avx512_bf16", ("AVX2", "AVX-512", "VNNI", "BF16")),
    ],
)
def test_features_are_whole_flags_of_the_cores(flags: str, features: tuple[str, ...]) -> None:
    text = "\n".join(CORE.format(number=number, flags=flags) for number in range(2))
    assert parse_cpu_info(text) == ("Some Chip 9 @ 2.0GHz", features)


def test_without_cpu_info_there_is_nothing_to_tell() -> None:
    assert parse_cpu_info("") == ("", ())


def test_the_slug_is_fit_for_a_file_name() -> None:
    machine = Machine("Some Chip(R) 9 @ 2.0GHz", ("AVX2", "AVX-512"), 2, 0.5, "3.11.9", "2.13.0")
    assert machine.slug == "some-chip-r-9-2-0ghz-avx2-avx512"
    assert "AVX2 yes, AVX-512 yes, VNNI no, BF16 no" in machine.described()


def test_this_machine_is_described_on_one_line() -> None:
    described = this_machine().described()
    assert "\n" not in described
    assert "torch 2." in described
