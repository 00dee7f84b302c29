"""The public names of this package: `__init__.py` loads them from here."""

from moothall.models.local.local_embedder import LocalEmbedder as LocalEmbedder
from moothall.models.local.local_model import LocalModel as LocalModel
from moothall.models.names import model as model
from moothall.models.protocol import Call as Call
from moothall.models.protocol import Model as Model
from moothall.models.protocol import ModelReply as ModelReply
from moothall.models.protocol import ReasoningPiece as ReasoningPiece
from moothall.models.protocol import StreamingModel as StreamingModel
from moothall.models.protocol import TextPiece as TextPiece
from moothall.models.protocol import Usage as Usage
from moothall.models.remote.anthropic import AnthropicModel as AnthropicModel
from moothall.models.remote.embedder import OpenAIEmbedder as OpenAIEmbedder
from moothall.models.remote.openai import OpenAIModel as OpenAIModel
from moothall.models.remote.rate_limit import RateLimit as RateLimit
from moothall.models.wrappers.budgeted import BudgetedModel as BudgetedModel
from moothall.models.wrappers.fallback import FallbackModel as FallbackModel
from moothall.models.wrappers.prices import Price as Price
from moothall.models.wrappers.prices import Prices as Prices
from moothall.models.wrappers.recorded import RecordedModel as RecordedModel
from moothall.models.wrappers.scripted import ScriptedModel as ScriptedModel
