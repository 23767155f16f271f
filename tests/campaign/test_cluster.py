"""A real Ray cluster of two nodes on this machine: a worker and then a node die, and nothing is lost."""

import os
import signal
import threading

import pytest
from test_campaign import begun, contents, tiny, worked

from slewrl.campaign.cluster import NotSharedError, RayRunner, _task
from slewrl.campaign.grids import mini
from slewrl.errors import UserFacingError

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "slewrl[cluster]"')
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    sharp = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": sharp}  # a dead node is noticed in seconds
    made = Cluster(initialize_head=True, head_node_args=head)
    yield made
    ray.shutdown()
    made.shutdown()


def trained_by(store, key):
    """The process that trains a run, once it has a checkpoint; None if there is none."""
    folder = store.folder(key)
    if not folder.locked or not list(folder.checkpoints.glob("*.ckpt")):
        return None
    text = (folder.path / "lock").read_text()
    return int(text) if text else None


def test_a_worker_and_a_node_die(cluster, tmp_path):
    campaign = tiny(seeds=(1, 2, 3), steps=600)
    keys = list(campaign.by_key)
    local, shared = begun(tmp_path / "local", campaign), begun(tmp_path / "shared", campaign)
    doomed, deaths = cluster.add_node(num_cpus=1, include_dashboard=False), []

    def disturb(runner):
        pids = [pid for key in keys if (pid := trained_by(shared, key))]
        if not deaths and pids:
            os.kill(pids[0], signal.SIGKILL)
            deaths.append("worker")
        elif deaths == ["worker"] and len(runner.finished) >= 1 and pids:
            deaths.append("node")
            threading.Thread(target=cluster.remove_node, args=(doomed,)).start()

    runner = RayRunner(shared, keys, 0, address=cluster.address)
    assert runner.run(disturb, poll=0.02)
    assert deaths == ["worker", "node"] and sorted(runner.finished) == sorted(keys)
    worked(local)
    assert contents(shared) == contents(local)


def test_a_folder_that_is_not_shared(tmp_path):
    store = begun(tmp_path, mini())
    with pytest.raises(NotSharedError, match="does not see .* needs a folder all nodes share"):
        _task(str(store.path / "key"), str(store.path / "shared.token"), False, 1_000, False)


def test_no_cluster(tmp_path):
    store = begun(tmp_path, mini())
    with pytest.raises(UserFacingError, match="no Ray cluster at '127.0.0.1:1'.*ray start --head"):
        RayRunner(store, [], 0, address="127.0.0.1:1").run()
