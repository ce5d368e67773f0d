from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from service.errors import InvalidInput
from service.models.promotion.gate import BestComparison, decide
from service.models.promotion.policy import GatePolicy, merge_gate
from service.training.protocol.messages.comparison import (
    Comparison,
    Evaluated,
    Interval,
    SimpleComparison,
)
from service.training.protocol.messages.shared import Failed
from storage.records.signatures import NO_TARGET

ACCURACY = GatePolicy(metric="accuracy")
LOSS = GatePolicy(metric="loss")


def classified(samples: int, *, old: int, new: int, lost: int, **more: Any) -> Comparison:
    """old, new: samples right before and now. lost: right only before."""
    return Comparison(
        samples=samples,
        class_counts=(samples,),
        candidate={"accuracy": new / samples},
        baseline={"accuracy": old / samples},
        discordant=(lost, lost + new - old),
        **more,
    )


def regressed(*, old: float, new: float, p_value: float) -> Comparison:
    interval = Interval(new - old, new - old - 0.1, new - old + 0.1, p_value)
    return Comparison(50, (), {"loss": new}, {"loss": old}, interval=interval)


def decided(
    comparison: Comparison, policy: GatePolicy = ACCURACY, reference: Comparison | None = None
) -> Any:
    return decide(policy, Evaluated(comparison, reference), baseline_version=4)


@pytest.mark.parametrize(
    ("comparison", "promoted", "outcome"),
    [
        (classified(60, old=20, new=55, lost=1), True, "better"),
        (classified(60, old=50, new=52, lost=3), True, "same"),
        (classified(60, old=50, new=50, lost=0), True, "same"),
        (classified(60, old=50, new=48, lost=4), True, "same"),
        (classified(1000, old=950, new=930, lost=25), False, "worse"),
        (classified(60, old=57, new=20, lost=38), False, "worse"),
        (classified(20, old=19, new=17, lost=2), True, "same"),
        (classified(20, old=19, new=16, lost=3), False, "worse"),
        (classified(10, old=9, new=8, lost=1), True, "same"),
        (classified(5, old=1, new=5, lost=0), False, "too_few"),
    ],
)
def test_accuracy_within_chance_is_neither_better_nor_worse(
    comparison: Comparison, promoted: bool, outcome: str
) -> None:
    decision = decided(comparison)
    assert decision.promoted is promoted
    assert decision.verdict["validation"]["outcome"] == outcome


@pytest.mark.parametrize(
    ("figure", "p_value", "outcome", "said"),
    [
        (0.9, 0.001, "better", ""),
        (0.6, 0.4, "same", "; it is no better than the last value of the window, whose"),
        (0.3, 0.001, "worse", "; it is worse than the last value of the window, whose"),
    ],
)
def test_a_version_no_better_than_no_model_is_promoted_and_said_to_be(
    figure: float, p_value: float, outcome: str, said: str
) -> None:
    interval = Interval(0.5 - figure, -1, 1, p_value)
    simple = (SimpleComparison("last_value", figure, interval),)
    comparison = replace(regressed(old=0.8, new=0.5, p_value=0.001), simple=simple)

    decision = decided(comparison, LOSS)

    assert decision.promoted
    assert decision.verdict["last_value"]["outcome"] == outcome
    assert said in decision.reason
    assert ("window" in decision.reason) is bool(said)
    untold = replace(comparison, candidate={"loss": None})
    assert "window" not in decided(untold, LOSS).reason


def test_losses_within_chance_do_not_add_up_against_the_best() -> None:
    """0.516 → 0.452 on 31 samples is within chance and margin, and so could the next be."""
    step = classified(31, old=14, new=12, lost=5)
    against_best = BestComparison(2, classified(31, old=16, new=12, lost=8))

    alone = decide(ACCURACY, Evaluated(step), baseline_version=3)
    decision = decide(ACCURACY, Evaluated(step), baseline_version=3, best=against_best)

    assert alone.promoted
    assert not decision.promoted
    assert "from 0.4516 (version 3) to 0.3871" in decision.reason
    assert "from 0.5161 (version 2, the best that was promoted) to 0.3871" in decision.reason
    assert decision.verdict["best_version"] == 2
    assert decision.verdict["best"]["outcome"] == "worse"
    assert decision.verdict["validation"]["outcome"] == "same"


def test_a_candidate_as_good_as_the_best_passes() -> None:
    best = BestComparison(2, classified(31, old=16, new=15, lost=4))

    assert decide(
        ACCURACY, Evaluated(classified(31, old=14, new=15, lost=2)), baseline_version=3, best=best
    ).promoted


def test_a_metric_that_no_sample_tells_is_no_reason_to_refuse() -> None:
    untold = {"recall_at_1": None, "loss": 0.5}
    policy = GatePolicy(metric="recall_at_1")
    found = decided(Comparison(60, (), untold, untold), policy)
    assert (found.promoted, found.verdict["validation"]["outcome"]) == (False, "too_few")
    assert "nothing in the validation samples tells its recall_at_1" in found.reason
    broken = decided(Comparison(60, (), {"recall_at_1": None, "loss": None}, untold), policy)
    assert broken.verdict["validation"]["outcome"] == "worse"


def test_too_few_samples_are_told_once() -> None:
    few = classified(5, old=4, new=4, lost=0)
    decision = decide(ACCURACY, Evaluated(few), baseline_version=3, best=BestComparison(2, few))

    assert decision.reason.count("too few") == 1


def test_the_reason_says_the_figures() -> None:
    reason = decided(classified(60, old=57, new=20, lost=38)).reason
    assert reason == (
        "not promoted: validation accuracy went from 0.95 (version 4) to 0.3333 on 60 samples,"
        " worse (McNemar's exact test: 1 right only now, 38 right only before, p < 0.001)"
    )


def test_the_verdict_holds_policy_and_figures_for_programs() -> None:
    verdict = decided(classified(60, old=50, new=48, lost=4)).verdict
    assert verdict["policy"]["mode"] == "if_not_worse"
    assert verdict["baseline_version"] == 4
    figures = verdict["validation"]
    assert (figures["only_baseline_right"], figures["only_candidate_right"]) == (4, 2)
    assert figures["p_value"] == pytest.approx(0.6875)


@pytest.mark.parametrize(
    ("comparison", "promoted", "outcome"),
    [
        (regressed(old=1.0, new=0.5, p_value=0.001), True, "better"),
        (regressed(old=1.0, new=1.05, p_value=0.4), True, "same"),
        (regressed(old=1.0, new=1.05, p_value=0.01), False, "worse"),
        (regressed(old=1.0, new=1.2, p_value=0.4), False, "worse"),
    ],
)
def test_a_loss_that_grows_is_worse(comparison: Comparison, promoted: bool, outcome: str) -> None:
    decision = decided(comparison, LOSS)
    assert decision.promoted is promoted
    assert decision.verdict["validation"]["outcome"] == outcome
    assert "95 % interval" in decision.reason


def test_no_samples_are_too_few_even_where_none_are_asked_for() -> None:
    policy = replace(ACCURACY, min_validation_samples=0)
    decision = decided(Comparison(0, (0, 0), {}, {}), policy)
    assert not decision.promoted
    assert "it has 0 validation samples, too few to tell" in decision.reason


def test_each_class_may_have_to_be_there() -> None:
    policy = replace(ACCURACY, min_per_class=3)
    comparison = replace(classified(60, old=20, new=55, lost=1), class_counts=(58, 2))
    decision = decided(comparison, policy)
    assert not decision.promoted
    assert "class 1 has 2 validation samples" in decision.reason
    evaluated = Evaluated(comparison)
    named = decide(policy, evaluated, baseline_version=1, classes=("calm", "fire"))
    assert "class 'fire' has 2 validation samples" in named.reason
    assert decided(replace(comparison, ignored=1), policy).promoted


def test_the_reference_set_must_pass_as_well() -> None:
    good, bad = classified(60, old=20, new=55, lost=1), classified(60, old=57, new=20, lost=38)
    decision = decided(good, reference=bad)
    assert not decision.promoted
    assert decision.verdict["validation"]["outcome"] == "better"
    assert decision.verdict["reference"]["outcome"] == "worse"
    assert "reference accuracy went from" in decision.reason


def test_an_open_gate_promotes_and_a_manual_one_does_not() -> None:
    worse, better = classified(60, old=57, new=20, lost=38), classified(60, old=20, new=57, lost=1)
    always = decided(worse, replace(ACCURACY, mode="always"))
    manual = decided(better, replace(ACCURACY, mode="manual"))
    assert always.promoted
    assert not manual.promoted
    assert "leaves it to a person" in manual.reason


def test_a_model_that_computes_no_number_is_worse() -> None:
    comparison = replace(classified(60, old=57, new=20, lost=38), candidate={"accuracy": None})
    assert not decided(comparison).promoted


def test_where_latest_cannot_be_run_there_is_nothing_to_be_worse_than() -> None:
    comparison = replace(
        classified(60, old=0, new=55, lost=0), baseline=None, discordant=None, fault="it is broken"
    )
    decision = decided(comparison)
    assert decision.promoted
    assert "version 4 cannot be compared: it is broken" in decision.reason


def test_what_could_not_be_measured_is_not_promoted() -> None:
    failed = Failed("out_of_memory", "no memory")
    refused = decide(ACCURACY, failed, baseline_version=4)
    assert not refused.promoted
    assert refused.reason == "not promoted: the new model could not be measured: no memory"
    assert decide(replace(ACCURACY, mode="always"), failed, baseline_version=4).promoted


def test_a_gate_is_changed_field_by_field_and_null_is_the_default() -> None:
    own = merge_gate(
        {"mode": "manual", "margin": 0.3},
        {"mode": None, "metric": "loss"},
        loss="mse",
        target=NO_TARGET,
    )
    assert own == {"margin": 0.3, "metric": "loss"}


def test_a_metric_that_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        merge_gate({}, {"metric": "accuracy"}, loss="mse", target=NO_TARGET)
    assert caught.value.problems[0].pointer == "/gate/metric"


@pytest.mark.parametrize(
    ("on_base_set", "promoted", "outcome"),
    [
        (classified(1000, old=950, new=931, lost=19), True, "same"),
        (classified(1000, old=950, new=929, lost=21), False, "worse"),
        (classified(1000, old=950, new=970, lost=1), True, "better"),
        (classified(40, old=40, new=38, lost=2), True, "same"),
        (classified(40, old=40, new=35, lost=5), False, "worse"),
        (classified(3, old=3, new=0, lost=3), True, "too_few"),
        (Comparison(0, (), {}, {}), True, "too_few"),
    ],
)
def test_on_the_base_set_a_small_loss_is_allowed_and_a_larger_one_is_not(
    on_base_set: Comparison, promoted: bool, outcome: str
) -> None:
    """19 of 1,000 are beyond chance, but within the margin; 5 of 40 are more than a tenth."""
    gained = classified(60, old=20, new=55, lost=1)
    decision = decide(ACCURACY, Evaluated(gained, base_set=on_base_set), baseline_version=4)
    assert decision.promoted is promoted
    assert decision.verdict["base_set"]["outcome"] == outcome


def test_the_reason_tells_both_tests() -> None:
    gained = classified(60, old=20, new=55, lost=1)
    forgot = classified(1000, old=950, new=700, lost=250)
    decision = decide(ACCURACY, Evaluated(gained, base_set=forgot), baseline_version=4)
    said = decision.reason.split("; ")
    assert said[0].startswith("not promoted: validation accuracy went from 0.3333 (version 4)")
    assert said[1] == (
        "base set accuracy went from 0.95 (version 4) to 0.7 on 1,000 samples, worse by more than "
        "the margin of 0.02 (McNemar's exact test: 0 right only now, 250 right only before, "
        "p < 0.001)"
    )


def test_a_margin_of_a_loss_on_the_base_set_is_a_share_of_the_old() -> None:
    gained = regressed(old=1.0, new=0.5, p_value=0.001)
    for new, promoted in ((0.509, True), (0.52, False)):
        base_set = regressed(old=0.5, new=new, p_value=0.001)
        decision = decide(LOSS, Evaluated(gained, base_set=base_set), baseline_version=4)
        assert decision.promoted is promoted


def test_figures_on_the_base_set_are_in_the_versions_metrics() -> None:
    gained = classified(60, old=20, new=55, lost=1)
    kept = classified(100, old=90, new=89, lost=1)
    found = decide(ACCURACY, Evaluated(gained, base_set=kept), baseline_version=4)
    assert found.metrics == {"accuracy": 55 / 60, "base_set": {"accuracy": 0.89}}
    assert found.baseline == {"accuracy": 20 / 60, "base_set": {"accuracy": 0.9}}


def test_losses_within_the_margin_do_not_add_up_on_the_base_set() -> None:
    """0.95 → 0.94 → 0.925 on 1,000 samples: the last step alone is within the margin."""
    gained = classified(60, old=20, new=55, lost=1)
    step = Evaluated(gained, base_set=classified(1000, old=940, new=925, lost=15))
    against_best = BestComparison(2, classified(1000, old=950, new=925, lost=25))
    alone = decide(ACCURACY, step, baseline_version=3)
    decision = decide(ACCURACY, step, baseline_version=3, best_on_base_set=against_best)
    assert (alone.promoted, decision.promoted) == (True, False)
    assert "(version 2, the best that was promoted) to 0.925" in decision.reason
    assert decision.verdict["best_on_base_set"]["outcome"] == "worse"
    assert decision.verdict["best_version_on_base_set"] == 2
