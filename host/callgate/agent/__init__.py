"""The agent side: models, planners, and the loop that solves tasks with them. The SDKs
come with the extra ``agent``.

Importing this package imports nothing else: each name comes from its module when it is used. The events of an agent are
in `callgate.agent.events`, requests to models and their replies in `callgate.agent.models.model`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from callgate.lazily import names_from

if TYPE_CHECKING:
    from .learning.experiment import Experiment
    from .learning.memory import SelectionMemory
    from .learning.ranked import LearnedSelector
    from .learning.selections_file import SelectionsFile
    from .loop.agent import Agent
    from .loop.budget import Budget
    from .loop.result import AgentResult
    from .models.anthropic_model import AnthropicModel
    from .models.named import model_named
    from .models.openai_model import OpenAIModel
    from .models.recording import RecordingModel, ReplayModel
    from .models.scripted import Calls, ScriptedModel
    from .orchestration.answering import PlannedAnswer, PlannedAnswerer
    from .orchestration.context import execution_context
    from .orchestration.orchestrator import ToolOrchestrator
    from .orchestration.synthesis import synthesize
    from .planning.decomposition import Decomposer
    from .planning.fallback_plan import RuleSelector
    from .planning.planner import ToolPlanner
    from .planning.selector import ModelSelector
    from .planning.settings import PlannerSettings
    from .planning.tool_plan import (
        DecomposedQuery,
        ExecutionContext,
        SubQuery,
        ToolExecution,
        ToolPlan,
        ToolResult,
        ToolStep,
    )
    from .react.actions import Action, Observation
    from .react.config import AgentConfig, gateway_model, read_config
    from .react.planner import ReActPlanner

__all__ = [
    "Action", "Agent", "AgentConfig", "AgentResult", "AnthropicModel", "Budget", "Calls", "DecomposedQuery",
    "Decomposer", "ExecutionContext", "Experiment", "LearnedSelector", "ModelSelector", "Observation", "OpenAIModel",
    "PlannedAnswer", "PlannedAnswerer", "PlannerSettings", "ReActPlanner", "RecordingModel",
    "ReplayModel", "RuleSelector", "ScriptedModel", "SelectionMemory", "SelectionsFile", "SubQuery", "ToolExecution",
    "ToolOrchestrator", "ToolPlan", "ToolPlanner", "ToolResult", "ToolStep", "execution_context", "gateway_model",
    "model_named", "read_config", "synthesize",
]  # fmt: skip

__getattr__, __dir__ = names_from(
    __name__,
    {
    "learning.experiment": ("Experiment",),
    "learning.memory": ("SelectionMemory",),
    "learning.ranked": ("LearnedSelector",),
    "learning.selections_file": ("SelectionsFile",),
    "loop.agent": ("Agent",),
    "loop.budget": ("Budget",),
    "loop.result": ("AgentResult",),
    "models.anthropic_model": ("AnthropicModel",),
    "models.named": ("model_named",),
    "models.openai_model": ("OpenAIModel",),
    "models.recording": ("RecordingModel", "ReplayModel"),
    "models.scripted": ("Calls", "ScriptedModel"),
    "orchestration.answering": ("PlannedAnswer", "PlannedAnswerer"),
    "orchestration.context": ("execution_context",),
    "planning.decomposition": ("Decomposer",),
    "planning.fallback_plan": ("RuleSelector",),
    "orchestration.orchestrator": ("ToolOrchestrator",),
    "planning.planner": ("ToolPlanner",),
    "planning.selector": ("ModelSelector",),
    "planning.settings": ("PlannerSettings",),
    "orchestration.synthesis": ("synthesize",),
    "planning.tool_plan": (
        "DecomposedQuery", "ExecutionContext", "SubQuery", "ToolExecution", "ToolPlan", "ToolResult", "ToolStep",
    ),
    "react.actions": ("Action", "Observation"),
    "react.config": ("AgentConfig", "gateway_model", "read_config"),
    "react.planner": ("ReActPlanner",),
},
)  # fmt: skip
