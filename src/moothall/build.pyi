# ruff: noqa: I001 - in groups
"""What orchestrators, spaces, doors and stores of others are built on: see docs/build.md."""

# record: an orchestrator of one's own
from moothall.agents.replies.resume import recorded as recorded
from moothall.agents.replies.record import Record as Record
from moothall.agents.replies.resume import NULL_RECORD as NULL_RECORD
from moothall.agents.replies.step import StepHandle as StepHandle
from moothall.agents.replies.state import APPENDED as APPENDED
from moothall.agents.replies.state import dump_state as dump_state
from moothall.agents.replies.state import load_state as load_state
from moothall.agents.replies.reply import Stop as Stop
from moothall.agents.replies.recorded_agent import RecordedAgent as RecordedAgent

# agents: one that replies, or is served
from moothall.agents.replies.threaded import Threaded as Threaded
from moothall.agents.replies.thread import Thread as Thread
from moothall.agents.caller_context import CallerContext as CallerContext
from moothall.agents.theirs.their_agent import TheirAgent as TheirAgent
from moothall.agents.theirs.their_request import TheirRequest as TheirRequest
from moothall.agents.theirs.their_run import TheirRun as TheirRun

# spaces: a space with rules of its own
from moothall.spaces.space import Space as Space
from moothall.spaces.router import Router as Router
from moothall.spaces.mailbox import Mailbox as Mailbox
from moothall.spaces.delivery import Delivery as Delivery
from moothall.spaces.request import Request as Request
from moothall.actions.message import Envelope as Envelope
from moothall.actions.message import address as address
from moothall.spaces.loop import LoopThread as LoopThread
from moothall.agents.agent import CURRENT as CURRENT

# models: what is asked of one
from moothall.agents.replies.charging import completed as completed
from moothall.models.ask import ask_value as ask_value
from moothall.models.ask import Unusable as Unusable
from moothall.agents.replies.reply_request import AnswerSchema as AnswerSchema
from moothall.actions.signature.schema import object_schema as object_schema

# calls: actions, permissions and schemas
from moothall.agents.loop.answer import ToolCall as ToolCall
from moothall.agents.loop.calls import ToolCalls as ToolCalls
from moothall.actions.approval import approve as approve
from moothall.actions.approval import answer as answer
from moothall.actions.signature.schema import SchemaValidator as SchemaValidator
from moothall.actions.provenance import with_sources as with_sources

# http
from moothall.foundation.http import HTTPClient as HTTPClient
from moothall.foundation.http import HTTPResponse as HTTPResponse
from moothall.foundation.http import HTTPError as HTTPError
from moothall.foundation.http.addresses import AllowedHosts as AllowedHosts
from moothall.foundation.http.server_url import ServerURL as ServerURL

# stores
from moothall.foundation.sqlite import SQLiteFile as SQLiteFile
from moothall.foundation.sqlite import SQLitePool as SQLitePool

# files
from moothall.foundation.files import written_whole as written_whole
from moothall.foundation.files import read_yaml as read_yaml
from moothall.foundation.files.field_names import FieldFault as FieldFault
from moothall.foundation.files.csv_dialect import stated_delimiter as stated_delimiter
from moothall.foundation.files.state_folder import state_file as state_file
from moothall.journal.store.journal_file import is_journal_file as is_journal_file

# json
from moothall.foundation.jsonvalue import json_text as json_text
from moothall.foundation.jsonvalue import json_line as json_line
from moothall.foundation.jsonvalue import as_json as as_json
from moothall.foundation.jsonvalue import copy_json as copy_json
from moothall.foundation.jsonvalue import read_json as read_json
from moothall.foundation.jsonvalue import NotJSON as NotJSON
from moothall.foundation.jsonvalue import UnreadableText as UnreadableText

# texts that are shown
from moothall.foundation.text.words import escaped as escaped
from moothall.foundation.text.words import one_line as one_line
from moothall.foundation.text.words import shorten as shorten
from moothall.foundation.text.words import cut as cut
from moothall.foundation.text.words import counted as counted
from moothall.foundation.text.words import error_text as error_text
from moothall.foundation.text.words import log_failure as log_failure
from moothall.foundation.text.words import nearest as nearest
from moothall.foundation.text.words import marked as marked
from moothall.foundation.text.words import excerpt as excerpt
from moothall.foundation.text.display import SafeHTML as SafeHTML

# texts that are read
from moothall.foundation.text.vocabulary import Words as Words
from moothall.foundation.text.vocabulary import Language as Language
from moothall.foundation.text.values import TextValues as TextValues
from moothall.foundation.text.ranking import Ranking as Ranking
from moothall.foundation.sqlite.fulltext import SearchWords as SearchWords

# arguments
from moothall.foundation.arguments import check_boolean as check_boolean
from moothall.foundation.arguments import check_function as check_function
from moothall.foundation.arguments import check_integer as check_integer
from moothall.foundation.arguments import check_path as check_path
from moothall.foundation.arguments import check_seconds as check_seconds
from moothall.foundation.arguments import check_text as check_text
from moothall.foundation.arguments import names_checked as names_checked

# threads
from moothall.foundation.threads import guard as guard
from moothall.foundation.threads import in_child as in_child
from moothall.foundation.threads import WORKERS as WORKERS
from moothall.foundation.threads import call_user as call_user
from moothall.foundation.threads import side_by_side as side_by_side
from moothall.foundation.threads import to_its_end as to_its_end
from moothall.foundation.threads import context_value as context_value
from moothall.foundation.threads import refuse_on_loop as refuse_on_loop

# processes
from moothall.foundation.processes import watch_group as watch_group

# tracing
from moothall.foundation.tracing import Tracing as Tracing
from moothall.foundation.tracing import WorkSpan as WorkSpan

# package: its names, and what others add to it
from moothall.foundation.lazily import lazily as lazily
from moothall.foundation.lazily import is_ours as is_ours
from moothall.foundation.extensions import Extension as Extension
