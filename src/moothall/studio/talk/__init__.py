"""What is said in a space: its messages, and the conversations of the person at the page."""

from moothall.studio.talk.conversations import ANSWER_FIELDS as ANSWER_FIELDS
from moothall.studio.talk.conversations import Conversations as Conversations
from moothall.studio.talk.space_messages import SpaceMessages as SpaceMessages
from moothall.studio.talk.weights import MissingWeights as MissingWeights
