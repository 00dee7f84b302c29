"""Agent Skills (https://agentskills.io): the format, and the block that gives them to a model."""

from moothall.agents.skills.format import Skill, check_skill
from moothall.agents.skills.skills_block import Skills

__all__ = ["Skill", "Skills", "check_skill"]
