"""What a plain `import slewrl` costs, which way imports point, and that the public API is annotated and documented."""

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import slewrl
from slewrl.errors import UserFacingError

SRC = Path(slewrl.__file__).parent
HEAVY = ("mujoco", "gymnasium", "matplotlib")


def loaded_after(statement: str, *modules: str) -> list[str]:
    code = f"import sys; {statement}; print(*(m for m in {modules!r} if m in sys.modules))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_import_is_light():
    assert loaded_after("import slewrl", *HEAVY, "torch", "yaml", "rich", "tyro") == []
    assert loaded_after("from slewrl import RateLimits, make_layer; make_layer('ddsrad')", *HEAVY) == []


def test_training_does_not_load_the_compiler():
    """Two seconds of every command, worker and test that starts."""
    used = "RateLimits(0.1, -1, 1, names=['a']).box(torch.zeros(1, dtype=torch.half), edges='tight').low"
    assert (
        loaded_after(f"import torch, slewrl.training.trainer; from slewrl import RateLimits; {used}", "torch._dynamo")
        == []
    )


def test_what_a_run_is_reads_without_torch():
    """Report, campaign and paper read specs and folders of runs by the thousand."""
    read = "import slewrl.training.spec, slewrl.training.run_folder, slewrl.campaign.store, slewrl.paper.grids"
    assert loaded_after(read, *HEAVY, "torch") == []


def test_an_export_loads_what_its_run_needs():
    """All of `slewrl export` but torch's ONNX exporter and the report of the file: no other agent, layer or robot."""
    run = Path(__file__).parent / "data" / "before_the_move" / "run"  # Pendulum-v1, sac, ddsrad
    code = (
        "import sys; from pathlib import Path; import slewrl.cli, slewrl.commands.deploy, slewrl.deploy.formats;"
        f"from slewrl.deploy.export import deployable; deployable(Path({str(run)!r}));"
        "print(*(name for name in sys.modules if name.partition('.')[0] == 'slewrl'))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    packages = {".".join(("slewrl", *path.parent.relative_to(SRC).parts)) for path in SRC.rglob("__init__.py")}
    assert "slewrl.agents.sac" in loaded and "slewrl.layers.ddsrad" in loaded
    assert len(set(loaded) - packages) <= 48, sorted(loaded)
    unneeded = ("locomotion", "campaign", "report", "paper", "render", "integrations", "training.trainer")
    assert [name for name in loaded if name.removeprefix("slewrl.").startswith(unneeded)] == []


def test_the_robot_side_needs_no_torch():
    code = (
        "import sys; sys.modules['torch'] = None;"
        "import slewrl, slewrl.limits.boxmath, slewrl.limits.parse, slewrl.report.figures.increments, numpy as np;"
        "print(slewrl.limits.boxmath.tight_edges(*(np.array([x]) for x in (0.1, 0.2, 0.2, -1.0, 1.0))))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "0.3" in result.stdout


def test_public_names():
    assert set(slewrl.__all__) <= set(dir(slewrl))
    assert all(getattr(slewrl, name) is not None for name in slewrl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'RateLimitt'; it has: LAYERS"):
        _ = slewrl.RateLimitt


# Lower may not import higher.
ORDER = [
    ["errors", "registry", "copying"],
    ["io"],
    ["limits"],
    ["metrics", "robots"],
    ["calm"],
    ["layers"],
    ["agents", "envs", "locomotion"],
    ["integrations"],
    ["training"],
    ["render"],
    ["campaign"],
    ["report", "paper"],
    ["deploy"],
    ["prove"],
    ["commands"],
    ["cli"],
    ["__main__"],
]


def test_imports_point_downward():
    rank = {name: i for i, group in enumerate(ORDER) for name in group}
    for path in SRC.rglob("*.py"):
        module = path.relative_to(SRC).parts[0].removesuffix(".py")
        if module == "__init__":
            continue
        for node in ast.parse(path.read_text()).body:  # module level: what import really pulls in
            names = []
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("slewrl."):
                names = [node.module.split(".")[1]]
            elif isinstance(node, ast.ImportFrom) and node.module == "slewrl":
                names = [alias.name for alias in node.names if alias.name in rank]
            for name in names:
                assert rank[name] <= rank[module], f"{path.name} imports {name}, which lies above it"


def public_members():
    for path in SRC.rglob("*.py"):
        name = ".".join(("slewrl", *path.relative_to(SRC).with_suffix("").parts)).removesuffix(".__init__")
        try:
            module = __import__(name, fromlist=["_"])
        except (ModuleNotFoundError, UserFacingError) as error:
            if "integrations" in path.parts and not (getattr(error, "name", "") or "").startswith("slewrl"):
                continue  # of a framework that is not here
            raise
        for key, value in vars(module).items():
            if not key.startswith("_") and getattr(value, "__module__", None) == name:
                yield f"{name}.{key}", value


def test_public_api_is_documented_and_annotated():
    seen = 0
    for name, value in public_members():
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        generated = f"{value.__name__}(" if dataclasses.is_dataclass(value) else "\0"
        assert value.__doc__ and not (value.__doc__.startswith(generated) and value.__doc__.endswith(")")), name
        functions = (
            {name: value}
            if inspect.isfunction(value)
            else {
                f"{name}.{key}": member
                for key, member in vars(value).items()
                if inspect.isfunction(member) and member.__module__ == value.__module__ and not key.startswith("_")
            }
        )
        for label, function in functions.items():
            seen += 1
            assert function.__doc__, f"{label} has no docstring"
            signature = inspect.signature(function)
            assert signature.return_annotation is not inspect.Signature.empty, f"{label} has no return annotation"
            for parameter in signature.parameters.values():
                assert parameter.name in ("self", "cls") or parameter.annotation is not parameter.empty, label
    assert seen > 60


def test_agents_and_environments_do_not_know_each_other():
    for folder, other in (("agents", "slewrl.envs"), ("envs", "slewrl.agents"), ("envs", "slewrl.layers")):
        for path in (SRC / folder).rglob("*.py"):
            assert other not in path.read_text(), f"{path.name} mentions {other}"
    # Layer x backbone composes: no agent names a layer ("none" is an argument of oneDNN's in nets.py).
    for path in set((SRC / "agents").glob("[!_]*.py")) - {SRC / "agents" / "nets.py"}:
        assert not any(f'"{name}"' in path.read_text() for name in slewrl.LAYERS)


def test_nothing_is_unpickled():
    """But a model of Stable-Baselines3's of an older slewrl, by its own function, with the user's trust."""
    for path in SRC.rglob("*.py"):
        found = re.findall(r"pickle\.loads?\b|Unpickler|cloudpickle|weights_only=False|yaml\.unsafe", path.read_text())
        assert found == [], path
    load = re.compile(r"\bload_from_zip_file\(|integrations\.sb3 import load\b")
    assert {path.name for path in SRC.rglob("*.py") if load.search(path.read_text())} == {"sb3.py", "sb3_model.py"}
