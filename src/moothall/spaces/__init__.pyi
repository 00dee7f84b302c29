"""The public names of this package: `__init__.py` loads them from here."""

from moothall.spaces.amqp.amqp_space import space_over_broker as space_over_broker
from moothall.spaces.amqp.dead_letters import DeadLetter as DeadLetter
from moothall.spaces.amqp.dead_letters import DeadLetters as DeadLetters
from moothall.spaces.amqp.inbox import Inbox as Inbox
from moothall.spaces.complete import completed_call as completed_call
from moothall.spaces.complete import completions as completions
from moothall.spaces.native import NativeSpace as NativeSpace
from moothall.spaces.you import You as You
