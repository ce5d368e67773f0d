from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InvalidInput
from service.policy.policy import LEVELS, SETTINGS, Policy, RuledBy, Unknown, default_policy
from service.policy.time_windows import Window
from service.policy.validation import from_dict, to_dict

BASE = default_policy(has_battery=True, processors=8)


def problems(data, base=BASE):
    try:
        from_dict(data, base=base)
    except InvalidInput as refused:
        return refused.problems
    return ()


def pointers(data):
    return [problem.pointer for problem in problems(data)]


def details(data):
    return [problem.detail for problem in problems(data)]


@pytest.mark.parametrize("has_battery", [True, False])
def test_the_defaults_are_valid_and_survive_json(has_battery):
    policy = default_policy(has_battery, processors=8)
    assert problems(to_dict(policy)) == ()
    assert from_dict(to_dict(policy), base=Policy()) == policy


def test_the_defaults_spare_a_battery():
    desk, laptop = default_policy(False, processors=8), default_policy(True, processors=8)
    assert desk.min_battery_percent is None
    assert (laptop.min_battery_percent, laptop.resume_battery_percent) == (30, 50)
    assert laptop.max_temperature_c < desk.max_temperature_c
    assert laptop.unknown.power == "block"
    assert desk.unknown.power == "allow"


@pytest.mark.parametrize("has_battery", [True, False])
def test_a_busy_device_trains_out_of_the_box(has_battery):
    policy = default_policy(has_battery, processors=2)
    assert policy.max_foreign_cpu_percent is None
    assert policy.max_cpu_pressure_percent is None
    assert policy.max_io_pressure_percent is None
    assert not policy.require_idle


def test_the_operators_settings_are_the_defaults():
    policy = default_policy(False, processors=8, threads=3, nice=2, memory_bytes=2**30)
    assert (policy.max_threads_busy, policy.max_threads_idle) == (3, 3)
    assert (policy.nice, policy.memory_limit_bytes) == (2, 2**30)


@pytest.mark.parametrize(
    ("usable_bytes", "cap_bytes"), [(8 * 2**30, 4 * 2**30), (2**20, 128 * 2**20), (None, None)]
)
def test_child_processes_may_take_half_of_the_memory(usable_bytes, cap_bytes):
    policy = default_policy(False, processors=8, usable_memory_bytes=usable_bytes)
    assert policy.memory_limit_bytes == cap_bytes


@pytest.mark.parametrize(("usable_mib", "least_mib"), [(256, 32), (512, 64), (8192, 128)])
def test_of_little_memory_less_must_be_free(usable_mib, least_mib):
    policy = default_policy(False, processors=2, usable_memory_bytes=usable_mib * 2**20)
    assert policy.min_free_memory_bytes == least_mib * 2**20
    assert policy.resume_free_memory_bytes == 2 * least_mib * 2**20


@pytest.mark.parametrize(("processors", "nice"), [(1, 19), (2, 10), (8, 10)])
def test_a_single_processor_is_shared_most_politely(processors, nice):
    assert default_policy(False, processors=processors).nice == nice


@pytest.mark.parametrize("processors", [1, 2, 8])
def test_an_idle_device_lends_all_of_its_processors(processors):
    policy = default_policy(False, processors=processors)
    assert (policy.max_threads_busy, policy.max_threads_idle) == (1, processors)


def test_what_is_left_out_stays_as_it_was():
    policy = from_dict({"require_idle": True, "unknown": {"disk": "allow"}}, base=BASE)
    assert policy == replace(BASE, require_idle=True, unknown=replace(BASE.unknown, disk="allow"))


def test_windows_and_names_are_read():
    policy = from_dict(
        {
            "windows": [{"days": ["tue", "mon"], "start": "22:30", "end": "00:00"}],
            "blocking_processes": ["steam", "steam", "zoom"],
        },
        base=BASE,
    )
    assert policy.windows == (Window(("mon", "tue"), "22:30", "24:00"),)
    assert policy.blocking_processes == ("steam", "zoom")
    assert to_dict(policy)["windows"] == [
        {"days": ["mon", "tue"], "start": "22:30", "end": "24:00"}
    ]


def test_every_problem_is_told_at_once():
    data = {
        "require_idle": "yes",
        "idle_minutes": -1,
        "max_foreign_cpu_percent": 101,
        "max_threads_busy": 0,
        "nice": 2.5,
        "grace_seconds": None,
        "unknown": {"disk": "perhaps", "moon": "allow"},
        "windows": [{"days": ["funday"], "start": "25:00", "end": "6"}, 3],
        "blocking_processes": ["/usr/bin/steam", ""],
        "min/battery": 1,
    }
    assert pointers(data) == [
        "/require_idle",
        "/idle_minutes",
        "/max_foreign_cpu_percent",
        "/max_threads_busy",
        "/nice",
        "/grace_seconds",
        "/unknown/disk",
        "/unknown/moon",
        "/windows/0/days",
        "/windows/0/start",
        "/windows/0/end",
        "/windows/1",
        "/blocking_processes/0",
        "/blocking_processes/1",
        "/min~1battery",
    ]


def test_a_refused_policy_is_an_invalid_input_with_its_problems():
    with pytest.raises(InvalidInput, match="nothing was changed") as caught:
        from_dict({"nice": 99, "max_temperature_c": 900}, base=BASE)
    assert [problem.pointer for problem in caught.value.problems] == ["/nice", "/max_temperature_c"]


def test_a_problem_says_what_would_be_right():
    assert details({"max_temperature_c": "hot"}) == [
        "must be a number from 20 to 120 °C, or null, not 'hot'"
    ]
    assert details({"nice": True}) == ["must be a whole number from 0 to 19, not true"]
    assert details({"nice": None}) == ["must be a whole number from 0 to 19, not null"]
    (bytes_told,) = details({"memory_limit_bytes": 1})
    assert "from 134217728 to 1125899906842624 B" in bytes_told


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_must_be_finite(number):
    assert pointers({"idle_minutes": number}) == ["/idle_minutes"]


@pytest.mark.parametrize(
    ("data", "pointer"),
    [
        ({"min_battery_percent": 60}, "/resume_battery_percent"),
        ({"resume_battery_percent": None}, "/resume_battery_percent"),
        ({"resume_temperature_c": 95}, "/resume_temperature_c"),
        ({"min_free_memory_bytes": 2**40}, "/resume_free_memory_bytes"),
        ({"min_free_disk_bytes": 2**40}, "/resume_free_disk_bytes"),
    ],
)
def test_a_resume_level_lies_on_the_safe_side_of_its_stop_level(data, pointer):
    assert pointers(data) == [pointer]


def test_a_condition_that_is_switched_off_needs_no_resume_level():
    assert pointers({"min_battery_percent": None, "max_temperature_c": None}) == []


def test_half_a_surrogate_pair_is_refused_anywhere():
    half = "\ud800"
    assert pointers({half: 1}) == [f"/{half}"]
    assert pointers({"unknown": {half: "allow"}}) == ["/unknown"]
    assert pointers({"windows": [{half: 1}]}) == ["/windows/0"]


def test_a_window_without_length_is_refused():
    window = {"days": ["mon"], "start": "06:00", "end": "06:00"}
    assert details({"windows": [window]}) == ["has no length; a whole day is 00:00 to 24:00"]
    assert pointers({"windows": [{**window, "start": "24:00"}]}) == ["/windows/0/start"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
names = st.sampled_from([field.name for field in fields(Policy)]) | st.text(max_size=6)


@given(st.dictionaries(names, json_values, max_size=6))
def test_whatever_comes_in_is_either_a_policy_or_a_list_of_problems(data):
    if not problems(data):
        policy = from_dict(data, base=BASE)
        assert from_dict(to_dict(policy), base=Policy()) == policy


def test_each_condition_that_can_be_unknown_has_a_rule():
    settings = SETTINGS.values()
    rules = {each.rule for field in settings for each in field.metadata if type(each) is RuledBy}
    assert rules == {field.name for field in fields(Unknown)}
    assert {levels.rule for levels in LEVELS} <= rules
