"""The public names of this package: `__init__.py` loads them from here."""

from moothall.agents.named_agents import AgentSource as AgentSource
from moothall.agents.ready.chatty import ChattyAI as ChattyAI
from moothall.agents.ready.folder import Folder as Folder
from moothall.agents.ready.folder_actions import changing_actions as changing_actions
from moothall.agents.ready.folder_actions import file_actions as file_actions
from moothall.agents.ready.function_agent import OpenAIFunctionAgent as OpenAIFunctionAgent
from moothall.agents.ready.host import Host as Host
from moothall.agents.ready.person import Desk as Desk
from moothall.agents.ready.person import Person as Person
from moothall.agents.ready.remote_agent import RemoteAgent as RemoteAgent
from moothall.agents.ready.sandbox import SandboxChoice as SandboxChoice
from moothall.agents.ready.shell import Shell as Shell
from moothall.agents.ready.terminal import Terminal as Terminal
from moothall.agents.replies.reply_context import cancel_run as cancel_run
from moothall.agents.replies.reply_request import ReplyRequest as ReplyRequest
from moothall.agents.replies.sub_agents.going_on import bounded_resumption as bounded_resumption
from moothall.agents.replies.sub_agents.resumer import ResumeHost as ResumeHost
from moothall.agents.replies.sub_agents.resumer import Resumer as Resumer
from moothall.agents.replies.sub_agents.resuming import Retries as Retries
from moothall.agents.replies.sub_agents.resuming import who_resumes as who_resumes
from moothall.agents.replies.sub_agents.stand_ins import ReplyParts as ReplyParts
from moothall.agents.replies.sub_agents.stand_ins import StandIns as StandIns
from moothall.agents.run_events import recorded_events as recorded_events
from moothall.spaces.user import User as User
