"""Learning agents by name: one self-contained file each, config dataclass first."""

from slewrl.registry import Registry

AGENTS = Registry(
    "agent",
    {
        "sac": "slewrl.agents.sac:SAC",
        "td3": "slewrl.agents.td3:TD3",
        "fastsac": "slewrl.agents.fastsac:FastSAC",
        "ppo": "slewrl.agents.ppo:PPO",
        "ppo_lag": "slewrl.agents.ppo_lag:PPOLag",
    },
)
