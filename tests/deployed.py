"""Small trained runs and their bundles, for the tests of deployment."""

from pathlib import Path

from slewrl.deploy.export import export_bundle
from slewrl.training.run_folder import RunFolder
from slewrl.training.spec import RunSpec
from slewrl.training.trainer import train

SPEC = RunSpec("Pendulum-v1", steps=300, learning_starts=200, evaluate_every=300, evaluate_episodes=1, batch_size=16)


def trained(path: Path, **changes) -> Path:
    """A run of a few hundred steps."""
    from dataclasses import replace

    spec = replace(SPEC, **{"agent_options": {"hidden": [16, 16]}, **changes})
    folder = RunFolder(path)
    folder.create(spec)
    assert train(spec, folder)
    return path


def bundled(path: Path, **changes) -> Path:
    """The bundle of such a run."""
    run = trained(path / "run", **changes)
    export_bundle(run, path / "policy.bundle")
    return path / "policy.bundle"
