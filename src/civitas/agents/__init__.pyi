"""The names of `__init__.py` for type checkers and editors."""

from civitas.agents.chatty import ChattyAI as ChattyAI
from civitas.agents.files import changing_actions as changing_actions
from civitas.agents.files import file_actions as file_actions
from civitas.agents.folder import Folder as Folder
from civitas.agents.function import OpenAIFunctionAgent as OpenAIFunctionAgent
from civitas.agents.host import Host as Host
from civitas.agents.person import Person as Person
from civitas.agents.remote import RemoteAgent as RemoteAgent
from civitas.agents.user import User as User
