"""How many episodes the final evaluation of a campaign's run has, and what it notes of a walking robot."""

import csv
from dataclasses import replace

import pytest

from slewrl.campaign.grids import CAMPAIGNS
from slewrl.campaign.spec import Campaign, Selection
from slewrl.campaign.worker import FINISHED, work
from slewrl.limits import RateLimits
from slewrl.locomotion.statue import statue_return
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec, check_numbers

SHORT = {"seconds": 0.2, "practice": 0.2}
WALKER = RunSpec(
    "H1-flat", "paper", agent="ppo", recipe="cpu", steps=64, environments=4, evaluate_every=64, evaluate_episodes=1,
    agent_options={"rollout": 8, "hidden": [8, 8]}, task_options=SHORT,
)  # fmt: skip


@pytest.mark.parametrize(("wanted", "found"), [(3, 3), (0, 5)])
def test_it_has_as_many_as_the_spec_says(tmp_path, monkeypatch, wanted, found):
    monkeypatch.setattr("slewrl.campaign.worker.ROBOT_EPISODES", 5)
    folder = RunFolder(tmp_path / "run")
    folder.create(replace(WALKER, final_episodes=wanted))
    assert work(folder.path) == FINISHED
    with open(folder.path / "final" / "episodes.csv") as file:
        assert len(list(csv.DictReader(file))) == found
    with open(folder.path / "final" / "statue.csv") as file:
        (row,) = csv.DictReader(file)
    assert float(row["return"]) == pytest.approx(statue_return("H1-flat", RateLimits.preset("H1", "paper"), SHORT))
    with open(folder.path / "final" / "calm.csv") as file:
        together, *joints = csv.DictReader(file)
    assert len(joints) == 10 and all(0 <= float(row["utilisation"]) <= 1 for row in joints)
    mean = sum(float(row["utilisation"]) for row in joints) / 10
    assert float(together["utilisation"]) == pytest.approx(mean)


def test_a_selection_changes_it_for_every_run():
    chosen = Selection(final_episodes=7).of(Campaign("c", "", (RunSpec("Pendulum-v1"), RunSpec("Pendulum-v1", seed=1))))
    assert [spec.final_episodes for spec in chosen.runs] == [7, 7]
    with pytest.raises(ValueError, match="final_episodes is -1, expected at least 0"):
        check_numbers(RunSpec("Pendulum-v1", final_episodes=-1))


@pytest.mark.parametrize("name", ["walk", "g1-flat", "h1-rough"])
def test_campaigns_of_walking_robots_have_the_papers_number(name):
    campaign = CAMPAIGNS[name]()
    assert {spec.final_episodes for spec in campaign.runs} == {1_000}
    assert {"ddsrad", "boxpro"} == {spec.layer for spec in campaign.runs}
    assert all(spec.steps >= 5_000_000 and spec.environments == 128 for spec in campaign.runs)
