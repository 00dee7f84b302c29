"""The names of `__init__.py` for type checkers and editors."""

from civitas.models.local import LocalModel as LocalModel
from civitas.models.local_embedder import LocalEmbedder as LocalEmbedder
from civitas.models.names import model as model
from civitas.models.protocol import Call as Call
from civitas.models.protocol import Model as Model
from civitas.models.protocol import ModelReply as ModelReply
from civitas.models.protocol import ReasoningPiece as ReasoningPiece
from civitas.models.protocol import StreamingModel as StreamingModel
from civitas.models.protocol import TextPiece as TextPiece
from civitas.models.protocol import Usage as Usage
from civitas.models.remote.litellm import LiteLLMModel as LiteLLMModel
from civitas.models.remote.openai import OpenAIModel as OpenAIModel
from civitas.models.transformers import TransformersModel as TransformersModel
from civitas.models.wrappers.budgeted import BudgetedModel as BudgetedModel
from civitas.models.wrappers.fallback import FallbackModel as FallbackModel
from civitas.models.wrappers.prices import Price as Price
from civitas.models.wrappers.prices import Prices as Prices
from civitas.models.wrappers.rate_limit import RateLimit as RateLimit
from civitas.models.wrappers.recorded import RecordedModel as RecordedModel
from civitas.models.wrappers.scripted import ScriptedModel as ScriptedModel
