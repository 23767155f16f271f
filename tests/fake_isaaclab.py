"""As much of IsaacLab as an adapter sees, in the order in which 2.3's ``ManagerBasedRLEnv.step`` does things.

``install`` puts it in place of the packages. An environment's episode ends when ``ENDS`` says so, its joints follow
their targets half way, and its clock is part of what is seen: so a last observation tells its own step.
"""

import enum
import re
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

import gymnasium as gym
import torch

TASK = "Isaac-Velocity-Fake-H1-v0"
H1 = [
    f"{side}_{joint}" for joint in ("hip_yaw", "hip_roll", "hip_pitch", "knee", "ankle") for side in ("left", "right")
]
JOINTS = ["torso", *reversed(H1), "left_elbow"]  # not in the order of any limits
ENDS = {0: (3, "terminated"), 1: (5, "truncated")}
"""Environment -> after how many steps its episodes end, and how; the others' last 100 steps."""
VELOCITY, COMMAND = (0.5, 0.25), (1.0, 0.25)


class DatasetExportMode(enum.IntEnum):
    EXPORT_NONE = 0
    EXPORT_ALL = 1


class RecorderTerm:
    def __init__(self, cfg, env):
        self.cfg, self._env = cfg, env

    def record_post_step(self):
        return None, None


class RecorderTermCfg:
    def __init__(self, class_type):
        self.class_type = class_type


class Proxy:
    """3.0 hands out its data like this."""

    def __init__(self, tensor):
        self.torch = tensor


class JointPositionAction:
    """An action term as 2.3 has it, names with an underscore included."""

    def __init__(self, cfg, env):
        self.cfg, self._asset = cfg, env.scene[cfg.asset_name]
        self._joint_ids, self._joint_names = self._asset.find_joints(cfg.joint_names, preserve_order=cfg.preserve_order)
        self._raw_actions = torch.zeros(env.num_envs, self.action_dim)
        self._processed_actions = torch.zeros_like(self._raw_actions)
        self._offset = self._asset.default[:, self._joint_ids] if cfg.use_default_offset else cfg.offset
        self.extra = cfg.extra
        """What a task of somebody's own might add."""

    action_dim = property(lambda self: len(self._joint_ids))
    raw_actions = property(lambda self: self._raw_actions)
    processed_actions = property(lambda self: self._processed_actions)

    def process_actions(self, actions):
        self._raw_actions[:] = actions
        self._processed_actions = self._raw_actions * self.cfg.scale + self._offset + self.extra
        if self.cfg.clip is not None:
            self._processed_actions = self._processed_actions.clamp(*self.cfg.clip)

    def apply_actions(self):
        self._asset.set_joint_position_target(self.processed_actions, joint_ids=self._joint_ids)

    def reset(self, env_ids=None):
        self._raw_actions[env_ids] = 0.0


@dataclass
class ActionTermConfig:
    asset_name: str = "robot"
    joint_names: list = field(default_factory=lambda: [".*"])
    preserve_order: bool = False
    scale: float = 0.5
    offset: float = 0.0
    use_default_offset: bool = True
    clip: tuple | None = None
    extra: float = 0.0
    class_type: type = JointPositionAction


@dataclass
class JointPositionActionCfg(ActionTermConfig):
    pass


@dataclass
class JointVelocityActionCfg(ActionTermConfig):
    pass


class Config:
    def __init__(self, variant, **action):
        self.seed, self.scene, self.device = None, SimpleNamespace(num_envs=1), "cpu"
        self.actions = SimpleNamespace(joint_pos=JointPositionActionCfg(**action))
        self.step_dt = 0.02
        self.recorders = SimpleNamespace(dataset_export_mode=DatasetExportMode.EXPORT_ALL)
        if variant == "final_obs":
            self.compute_final_obs = False
        if variant == "lost":
            self.recorders = None


class Robot:
    def __init__(self, count, wrap):
        default = torch.linspace(-0.2, 0.3, len(JOINTS)).repeat(count, 1)
        self.joint_pos, self.target = default.clone(), torch.zeros_like(default)
        velocity = torch.tensor([*VELOCITY, 0.0]).repeat(count, 1)
        ranges = torch.tensor([-2.0, 2.0]).expand(count, len(JOINTS), 2)
        self.data = SimpleNamespace(
            default_joint_pos=wrap(default), root_lin_vel_b=wrap(velocity), joint_pos_limits=wrap(ranges)
        )
        self.default, self.joint_names = default, JOINTS

    def find_joints(self, keys, preserve_order=False):
        assert not preserve_order
        found = [i for i, name in enumerate(JOINTS) if any(re.fullmatch(key, name) for key in keys)]
        return found, [JOINTS[i] for i in found]

    def set_joint_position_target(self, target, joint_ids):
        self.target[:, joint_ids] = target


class FakeEnv(gym.Env):
    """Signature of ``ManagerBasedRLEnv``: no base class of its own, since an adapter may not look at that."""

    def __init__(self, cfg):
        self.cfg, self.num_envs, self.step_dt, self.extras = cfg, cfg.scene.num_envs, cfg.step_dt, {}
        self.final = getattr(cfg, "compute_final_obs", None)
        self.robot = Robot(self.num_envs, Proxy if self.final is not None else lambda tensor: tensor)
        self.scene = {"robot": self.robot}
        action = cfg.actions.joint_pos
        self.term = action.class_type(action, self)
        self.action_manager = SimpleNamespace(
            get_term={"joint_pos": self.term}.get, process_action=self.term.process_actions, active_terms=["joint_pos"]
        )
        command = torch.tensor([*COMMAND, 0.0]).repeat(self.num_envs, 1)
        asked = SimpleNamespace(vel_command_b=command, command=command)
        self.command_manager = SimpleNamespace(active_terms=["base_velocity"], get_term={"base_velocity": asked}.get)
        names = ["joint_pos", "actions", "clock", "noise"]
        widths = [(len(JOINTS),), (self.term.action_dim,), (1,), (1,)]
        self.observation_manager = SimpleNamespace(
            active_terms={"policy": names},
            group_obs_term_dim={"policy": widths},
            group_obs_concatenate={"policy": True},
        )
        self.recorders = self._recorders(cfg.recorders)
        self.clock = torch.zeros(self.num_envs)
        self.targets = []
        """What the actuators were given at every step, (N, J) each."""

    def _recorders(self, cfg):
        terms = [term for term in vars(cfg or SimpleNamespace()).values() if isinstance(term, RecorderTermCfg)]
        assert not terms or cfg.dataset_export_mode == DatasetExportMode.EXPORT_NONE, "opens a file for its dataset"
        return [term.class_type(term, self) for term in terms]

    def _observe(self):
        joints = self.robot.joint_pos - self.robot.default
        noise = torch.rand(self.num_envs, 1)
        return {"policy": torch.cat([joints, self.term.raw_actions, self.clock[:, None], noise], 1)}

    def reset(self, *, seed=None, options=None):
        torch.manual_seed(seed)  # the process's, as IsaacLab does
        self._reset_idx(torch.arange(self.num_envs))
        self.obs_buf = self._observe()
        return self.obs_buf, self.extras

    def step(self, action):
        self.term.process_actions(action)
        self.term.apply_actions()
        self.targets.append(self.robot.target.clone())
        self.robot.joint_pos = (self.robot.joint_pos + self.robot.target) / 2
        self.clock += 1
        terminated, truncated = (self._ended(kind) for kind in ("terminated", "truncated"))
        reward = torch.ones(self.num_envs)
        if self.recorders:
            self.obs_buf = self._observe()
            for recorder in self.recorders:
                assert recorder.record_post_step() == (None, None)
        over = (terminated | truncated).nonzero().squeeze(1)
        if len(over):
            if self.final:
                self.extras["final_obs"] = self._observe()
            self._reset_idx(over)
        self.obs_buf = self._observe()
        return self.obs_buf, reward, terminated, truncated, self.extras

    def _ended(self, how):
        ends = [ENDS.get(k, (100, "truncated")) for k in range(self.num_envs)]
        return torch.tensor([kind == how and self.clock[k].item() >= steps for k, (steps, kind) in enumerate(ends)])

    def _reset_idx(self, ids):
        self.robot.joint_pos[ids] = self.robot.default[ids]
        self.term.reset(ids)
        self.clock[ids] = 0.0


def install(monkeypatch, config):
    """Put the fake in place of the packages, with ``config`` for every task; returns what was launched."""
    launched = []
    parse = lambda task, device, num_envs: (setattr(config.scene, "num_envs", num_envs), config)[1]  # noqa: E731
    modules = {
        "isaaclab": {},
        "isaaclab.app": {"AppLauncher": lambda **options: launched.append(options)},
        "isaaclab.envs": {},
        "isaaclab.envs.mdp": {"JointPositionActionCfg": JointPositionActionCfg},
        "isaaclab.envs.mdp.actions": {
            "JointPositionAction": JointPositionAction,
            "JointPositionActionCfg": JointPositionActionCfg,
        },
        "isaaclab.managers": {
            "DatasetExportMode": DatasetExportMode,
            "RecorderTerm": RecorderTerm,
            "RecorderTermCfg": RecorderTermCfg,
        },
        "isaaclab.utils": {"configclass": dataclass},
        "isaaclab_tasks": {},
        "isaaclab_tasks.utils": {"parse_env_cfg": parse},
    }
    for name, members in modules.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    if TASK not in gym.registry:
        gym.register(TASK, entry_point=FakeEnv, disable_env_checker=True)
    return launched
