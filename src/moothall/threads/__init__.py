"""Threads: workers, waiting across threads and loops, locks, and what a forked child renews."""

from moothall.threads.closing import is_closing as is_closing
from moothall.threads.closing import reset as reset
from moothall.threads.closing import within as within
from moothall.threads.locks import guard as guard
from moothall.threads.locks import held_by_forks as held_by_forks
from moothall.threads.locks import in_child as in_child
from moothall.threads.locks import renewed as renewed
from moothall.threads.user_functions import DATA as DATA
from moothall.threads.user_functions import awaited as awaited
from moothall.threads.user_functions import called as called
from moothall.threads.user_functions import failing as failing
from moothall.threads.user_functions import in_worker as in_worker
from moothall.threads.user_functions import is_async as is_async
from moothall.threads.user_functions import plain_or_async as plain_or_async
from moothall.threads.waiting import Channel as Channel
from moothall.threads.waiting import WaitingLine as WaitingLine
from moothall.threads.waiting import settle as settle
from moothall.threads.waiting import side_by_side as side_by_side
from moothall.threads.waiting import to_its_end as to_its_end
from moothall.threads.workers import WORKERS as WORKERS
from moothall.threads.workers import WorkerThreads as WorkerThreads
from moothall.threads.workers import is_cancelled as is_cancelled
from moothall.threads.workers import loop_is_running as loop_is_running
from moothall.threads.workers import refuse_on_loop as refuse_on_loop
