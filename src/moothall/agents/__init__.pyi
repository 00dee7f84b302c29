"""The public names of this package: `__init__.py` loads them from here."""

from moothall.agents.chatty import ChattyAI as ChattyAI
from moothall.agents.folder import Folder as Folder
from moothall.agents.folder_actions import changing_actions as changing_actions
from moothall.agents.folder_actions import file_actions as file_actions
from moothall.agents.function import OpenAIFunctionAgent as OpenAIFunctionAgent
from moothall.agents.host import Host as Host
from moothall.agents.person import Desk as Desk
from moothall.agents.person import Person as Person
from moothall.agents.remote_agent import RemoteAgent as RemoteAgent
from moothall.agents.user import User as User
from moothall.reasoning.reply_request import ReplyRequest as ReplyRequest
