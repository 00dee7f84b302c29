"""The public names of this package: `__init__.py` loads them from here."""

from moothall.serving.a2a.a2a_agent import A2AAgent as A2AAgent
from moothall.serving.company.company import Company as Company
from moothall.serving.company.controls import ScheduleControl as ScheduleControl
from moothall.serving.company.program import agents_of_file as agents_of_file
from moothall.serving.company.schedule import Schedule as Schedule
from moothall.serving.company.supervisor import Restart as Restart
from moothall.serving.company.supervisor import Supervised as Supervised
from moothall.serving.company.supervisor import Supervisor as Supervisor
from moothall.serving.doors.application import asgi as asgi
from moothall.serving.mcp.mcp_agent import MCPAgent as MCPAgent
from moothall.serving.theirs.agents_sdk_agent import AgentsSDKAgent as AgentsSDKAgent
from moothall.serving.theirs.langgraph_agent import LangGraphAgent as LangGraphAgent
from moothall.serving.theirs.pydantic_ai_agent import PydanticAIAgent as PydanticAIAgent
