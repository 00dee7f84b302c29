"""Threads: workers, waiting across threads and loops, locks, and what a forked child renews."""

from moothall.foundation.threads.closing import context_value as context_value
from moothall.foundation.threads.closing import is_closing as is_closing
from moothall.foundation.threads.closing import reset as reset
from moothall.foundation.threads.locks import guard as guard
from moothall.foundation.threads.locks import held_by_forks as held_by_forks
from moothall.foundation.threads.locks import in_child as in_child
from moothall.foundation.threads.process_bound import ProcessBound as ProcessBound
from moothall.foundation.threads.user_functions import DATA_TYPES as DATA_TYPES
from moothall.foundation.threads.user_functions import awaited as awaited
from moothall.foundation.threads.user_functions import call_observers as call_observers
from moothall.foundation.threads.user_functions import call_user as call_user
from moothall.foundation.threads.user_functions import in_worker as in_worker
from moothall.foundation.threads.user_functions import plain_or_async as plain_or_async
from moothall.foundation.threads.waiting import Channel as Channel
from moothall.foundation.threads.waiting import WaitingLine as WaitingLine
from moothall.foundation.threads.waiting import settle as settle
from moothall.foundation.threads.waiting import side_by_side as side_by_side
from moothall.foundation.threads.waiting import to_its_end as to_its_end
from moothall.foundation.threads.workers import WORKERS as WORKERS
from moothall.foundation.threads.workers import WorkerThreads as WorkerThreads
from moothall.foundation.threads.workers import is_cancelled as is_cancelled
from moothall.foundation.threads.workers import loop_is_running as loop_is_running
from moothall.foundation.threads.workers import refuse_greenlets as refuse_greenlets
from moothall.foundation.threads.workers import refuse_on_loop as refuse_on_loop
from moothall.foundation.threads.workers import take_back_cancel as take_back_cancel
