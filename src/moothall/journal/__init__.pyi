"""The public names of this package: `__init__.py` loads them from here."""

from moothall.journal.attributes import ATTRIBUTES as ATTRIBUTES
from moothall.journal.deleting import Deleted as Deleted
from moothall.journal.doubt import Doubt as Doubt
from moothall.journal.entry import Entry as Entry
from moothall.journal.entry import Outline as Outline
from moothall.journal.entry import Sums as Sums
from moothall.journal.journal import Journal as Journal
from moothall.journal.kinds.feedback import Feedback as Feedback
from moothall.journal.kinds.run_kinds import RunKind as RunKind
from moothall.journal.kinds.shares import RunShares as RunShares
from moothall.journal.kinds.shares import Share as Share
from moothall.journal.opening import RunPart as RunPart
from moothall.journal.run_view import RecordedAnswer as RecordedAnswer
from moothall.journal.run_view import RecordedCall as RecordedCall
from moothall.journal.run_view import RunView as RunView
from moothall.journal.run_waits import Waits as Waits
from moothall.journal.stop_reason import REASONS as REASONS
from moothall.journal.store.backup import RecordedMessages as RecordedMessages
from moothall.journal.wait_kinds import Done as Done
from moothall.journal.wait_kinds import Wait as Wait
